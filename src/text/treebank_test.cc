// Treebanks and coreference files: what is read, what is refused, and what is written.
#include "headwise/text/treebank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "headwise/core/random.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Lines of CoNLL-U with "|" for tabs and ";" for line ends; columns that do not matter are left
/// out: "1|The|DET|2|det|MISC".
std::string conllu(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find(';'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.empty() || line.starts_with('#')) {
      out.append(line).append("\n");
      continue;
    }
    std::vector<std::string> cells;
    for (size_t begin = 0, stop; begin <= line.size() && cells.size() < 6; begin = stop + 1) {
      stop = cells.size() == 5 ? line.size() : std::min(line.find('|', begin), line.size());
      cells.emplace_back(line.substr(begin, stop - begin));
    }
    cells.resize(6, "_");
    for (const std::string& cell :
         {cells[0], cells[1], std::string("_"), cells[2], std::string("_"), std::string("_"),
          cells[3], cells[4], std::string("_")}) {
      out += cell + "\t";
    }
    out += cells[5] + "\n";
  }
  return out;
}

class Treebank : public testing::Test {
 protected:
  std::vector<TreeSentence> read(std::string_view lines) {
    return read_conllu(folder_.write("a.conllu", conllu(lines)));
  }
  std::vector<CoreferenceItem> entities(std::string_view lines) {
    return read_entities(folder_.write("a.conllu", conllu(lines)));
  }
  /// "a.conllu, line 3: what"
  std::string refusal(std::string_view lines) {
    return place_of([&] { read(lines); });
  }
  template <class Call>
  std::string place_of(const Call& call) {
    const ErrorDetail detail = error_of(call);
    return detail.where.substr(detail.where.rfind('/') + 1) + ": " + detail.what;
  }
  void expect_back(const std::vector<TreeSentence>& sentences) {
    const std::string text = to_conllu(sentences);
    EXPECT_EQ(read_conllu(folder_.write("back.conllu", text)), sentences) << text;
  }

  TemporaryFolder folder_;
};

std::vector<std::string> parts(const TreeSentence& sentence) {
  std::vector<std::string> parts;
  for (const TreeWord& word : sentence.words) {
    parts.push_back(sentence.text.substr(word.bytes.begin, word.bytes.end - word.bytes.begin));
  }
  return parts;
}

TEST_F(Treebank, HasSentencesWithTheirWords) {
  const auto sentences = read(
      "# newdoc;# sent_id = x-1;# text = The  dog barks.;# text_en = no text;1|The|DET|2|det;"
      "2|dog|NOUN|3|nsubj;3|barks|VERB|0|root|SpaceAfter=No;4|.|PUNCT|3|punct;;;"
      "1|It|PRON|0|root|Lang=en|SpaceAfter=No;2|'s|_|1|aux:pass");
  ASSERT_EQ(sentences.size(), 2u);
  const TreeSentence& first = sentences[0];
  EXPECT_EQ(first.id, "x-1");
  EXPECT_EQ(first.text, "The  dog barks.");
  EXPECT_EQ(
      first.words[1],
      (TreeWord{.form = "dog", .upos = "NOUN", .relation = "nsubj", .head = 2, .bytes = {5, 8}}));
  EXPECT_EQ(first.words[2].head, -1);
  EXPECT_THAT(parts(first), ElementsAre("The", "dog", "barks", "."));
  EXPECT_EQ(sentences[1].id, "sentence 2");
  EXPECT_EQ(sentences[1].words[1].upos, "_");
  EXPECT_EQ(sentences[1].words[1].relation, "aux:pass");
  expect_back(sentences);
}

TEST_F(Treebank, BuildsTheTextOfWordsWhereNoneIsGiven) {
  const auto sentences = read(
      "1|Ça|PRON|2|nsubj;2-3|va-t|_|_|_|SpaceAfter=No;2|va|VERB|0|root;3|t|X|2|dep|SpaceAfter=No;"
      "4|10 000|NUM|2|obj;5|.|PUNCT|2|punct");
  EXPECT_EQ(sentences[0].text, "Ça va-t10 000 .");
  EXPECT_THAT(parts(sentences[0]), ElementsAre("Ça", "va-", "t", "10 000", "."));
  expect_back(sentences);
}

TEST_F(Treebank, PlacesTheWordsOfATokenWhereTheyAreFound) {
  const auto words = [&](const std::string& token, const std::vector<std::string>& forms) {
    std::string lines = "# text = x " + token + " y;1|x|X|0|root;2-" +
                        std::to_string(forms.size() + 1) + "|" + token;
    for (size_t i = 0; i < forms.size(); ++i) {
      lines += ";" + std::to_string(i + 2) + "|" + forms[i] + "|X|1|dep";
    }
    const auto sentences = read(lines + ";" + std::to_string(forms.size() + 2) + "|y|X|1|dep");
    expect_back(sentences);
    auto all = parts(sentences[0]);
    EXPECT_EQ(all.front() + all.back(), "xy");
    return std::vector(all.begin() + 1, all.end() - 1);
  };
  EXPECT_THAT(words("don't", {"do", "n't"}), ElementsAre("do", "n't"));
  EXPECT_THAT(words("du", {"de", "le"}), ElementsAre("du", "du"));
  EXPECT_THAT(words("zum", {"zu", "dem"}), ElementsAre("zu", "m"));
  EXPECT_THAT(words("della", {"di", "la"}), ElementsAre("del", "la"));
  EXPECT_THAT(words("dámelo", {"da", "me", "lo"}), ElementsAre("dá", "me", "lo"));
  EXPECT_THAT(words("cannot", {"can", "ne", "not"}), ElementsAre("can", "cannot", "not"));
  EXPECT_THAT(words("a  bc", {"a", "x"}), ElementsAre("a", "bc"));
  EXPECT_THAT(words("aaa", {"a", "a"}), ElementsAre("a", "aa"));
  EXPECT_THAT(words("x'a b-b", {"a", "b", "b"}), ElementsAre("x'a", "b-", "b"));
  EXPECT_THAT(words("won't", {"won't"}), ElementsAre("won't"));
}

TEST_F(Treebank, OfAnyTokensIsReadBackEqual) {
  const char* const pieces[] = {"a", "b", "c", "ab", "a b", "ca", "é"};
  Random random(5);
  std::string lines;
  for (int s = 0; s < 500; ++s) {
    int64_t words = 0;
    for (uint32_t t = 0, tokens = 1 + random.below(3); t < tokens; ++t) {
      std::string token;
      for (uint32_t i = 0, count = 1 + random.below(3); i < count; ++i) {
        token += pieces[random.below(7)];
      }
      const int64_t first = words + 1;
      std::string own;
      for (uint32_t i = 0, count = 1 + random.below(3); i < count; ++i) {
        const std::string before = std::to_string(words++);
        own += std::to_string(words) + "|" + pieces[random.below(7)] + "|X|" + before + "|dep;";
      }
      lines += std::to_string(first) + "-" + std::to_string(words) + "|" + token + "|_|_|_|" +
               (random.below(2) == 0 ? "SpaceAfter=No;" : "_;") + own;
    }
    lines += ";";
  }
  const auto sentences = read(lines);
  ASSERT_EQ(sentences.size(), 500u);
  expect_back(sentences);
}

TEST_F(Treebank, LeavesEmptyNodesOut) {
  const auto sentences = read(
      "0.1|so|ADV|_|_;1|He|PRON|2|nsubj;2|ate|VERB|0|root;2.1|it|X|_|_;2.2|too|X|_|_;3|!|PUNCT|2|"
      "punct");
  EXPECT_EQ(sentences[0].text, "He ate !");
  EXPECT_EQ(sentences[0].words.size(), 3u);
}

TEST_F(Treebank, ReadsGzipWindowsLinesAndMarks) {
  const std::string plain = "\xEF\xBB\xBF" + conllu("# text = a;1|a|X|0|root;;");
  std::string windows;
  for (const char c : plain) windows += c == '\n' ? "\r\n" : std::string(1, c);
  const auto expected = read("# text = a;1|a|X|0|root");
  EXPECT_EQ(read_conllu(folder_.write("w", windows)), expected);
  const auto packed = folder_.path() / "a.gz";
  const gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, plain.data(), static_cast<unsigned>(plain.size()));
  gzclose(file);
  EXPECT_EQ(read_conllu(packed), expected);
}

TEST_F(Treebank, RefusesFilesWithoutSentences) {
  for (const char* const lines : {"", "# a licence;;;# newdoc;;"}) {
    EXPECT_EQ(error_of([&] { read(lines); }).what, "conllu: the treebank has no sentences");
  }
}

TEST_F(Treebank, RefusesWhatIsNoTree) {
  EXPECT_EQ(refusal("1|a|X|0|root;2|b|X|3|dep"),
            "a.conllu, line 2: conllu: the head of a word is not in its sentence");
  EXPECT_EQ(refusal("1|a|X|_|_"),
            "a.conllu, line 1: conllu: the head of a word is not in its sentence");
  EXPECT_EQ(refusal("1|a|X|0|root;2|b|X|0|root"),
            "a.conllu, line 2: conllu: a sentence has two roots");
  EXPECT_EQ(refusal("1|a|X|0|root;2|b|X|2|dep"),
            "a.conllu, line 2: conllu: the heads of words go in a circle");
  EXPECT_EQ(refusal("1|a|X|2|x;2|b|X|3|x;3|c|X|1|x"),
            "a.conllu, line 1: conllu: the heads of words go in a circle");
  EXPECT_EQ(refusal("1|a|X|0|root;2|b|X|3|x;3|c|X|4|x;4|d|X|3|x"),
            "a.conllu, line 3: conllu: the heads of words go in a circle");
  for (const char* const head : {"-1", "x", "1.5", "+1", "", "99999999999999999999"}) {
    EXPECT_EQ(refusal(std::string("1|a|X|") + head + "|root"),
              "a.conllu, line 1: conllu: a head that is no word");
  }
  EXPECT_EQ(refusal("1|a|X|0|_"), "a.conllu, line 1: conllu: a word without a relation");
  EXPECT_EQ(refusal("1|a|X|0|a/b"), "a.conllu, line 1: conllu: no relation");
  EXPECT_EQ(refusal("1|a||0|root"), "a.conllu, line 1: conllu: no part of speech");
  std::string many = "1|a|X|0|root";
  for (int i = 2; i < 1100; ++i) {
    many += ";" + std::to_string(i) + "|a|X|1|r" + std::to_string(i);
  }
  EXPECT_EQ(refusal(many), "a.conllu, line 1001: conllu: too many names of a relation");
}

TEST_F(Treebank, RefusesWhatIsNoConllu) {
  const auto bytes = [&](std::string_view all) {
    return place_of([&] { read_conllu(folder_.write("b.conllu", all)); });
  };
  EXPECT_EQ(bytes("1\ta\tb\n"), "b.conllu, line 1: conllu: a line has other columns");
  EXPECT_EQ(bytes("1\ta\t_\tX\t_\t_\t0\troot\t_\t_\t_\n"),
            "b.conllu, line 1: conllu: a line has other columns");
  EXPECT_EQ(bytes(" \n"), "b.conllu, line 1: conllu: a line has other columns");
  EXPECT_EQ(bytes("# text = a\n1\t\xFF\t_\n"), "b.conllu, line 2: text: not UTF-8");
  EXPECT_THAT(bytes(std::string("1\ta\0", 4)), HasSubstr("line 1: text: a NUL byte"));
  const std::string counted = ": conllu: the words of a sentence are not counted from 1";
  for (const char* const id : {"2", "0", "x", "", "-1", "1-0", "1-x", "2-3", "1.1", "0.2", "0.1-2",
                               "1-2-3", "99999999999999999999", "-"}) {
    EXPECT_EQ(refusal(std::string(id) + "|a|X|0|root"), "a.conllu, line 1" + counted) << id;
  }
  EXPECT_EQ(refusal("1|a|X|0|root;1|b|X|0|root"), "a.conllu, line 2" + counted);
  EXPECT_EQ(refusal("1-2|ab;1|a|X|0|root;2-3|bc;2|b|X|1|x"), "a.conllu, line 3" + counted);
  EXPECT_EQ(refusal("1|a|X|0|root;2-3|bc;2|b|X|1|x"),
            "a.conllu, line 2: conllu: a token lacks words");
  EXPECT_EQ(refusal("1-200|ab;1|a|X|0|root"),
            "a.conllu, line 1: conllu: a token has too many words");
  EXPECT_EQ(refusal("1||X|0|root"), "a.conllu, line 1: conllu: a word without a form");
  EXPECT_EQ(refusal("1| a|X|0|root"), "a.conllu, line 1: conllu: a word without a form");
  EXPECT_EQ(refusal("1|a|X|0|root;# text = b"),
            "a.conllu, line 2: conllu: a comment within a sentence");
  EXPECT_EQ(refusal("# text = a;# text = a;1|a|X|0|root"),
            "a.conllu, line 2: conllu: a sentence has a comment twice");
  EXPECT_EQ(refusal("# text = a;;1|a|X|0|root"),
            "a.conllu, line 2: conllu: a sentence without words");
  EXPECT_EQ(refusal("# sent_id = a"), "a.conllu, line 1: conllu: a sentence without words");
  EXPECT_EQ(refusal("0.1|a|X|_|_"), "a.conllu, line 1: conllu: a sentence without words");
  EXPECT_EQ(refusal("# text = a c;1|a|X|0|root;2|b|X|1|x"),
            "a.conllu, line 3: conllu: a word is not in the text where it should be");
  EXPECT_EQ(refusal("# text = a b c;1|a|X|0|root;2|b|X|1|x"),
            "a.conllu, line 3: conllu: the text goes on after the last word");
  EXPECT_NE(error_of([&] { read_conllu(folder_.path()); }).where, "");
  EXPECT_NE(error_of([&] { read_conllu(folder_.path() / "none"); }).where, "");
}

TEST_F(Treebank, CannotBeWrittenWithTabs) {
  TreeSentence sentence{.id = "x", .text = "a b", .words = {{.form = "a\tb"}}};
  EXPECT_EQ(error_of([&] { to_conllu({sentence}); }).what, "conllu: this cannot be written");
}

class Gap : public Treebank {
 protected:
  std::vector<CoreferenceItem> read_lines(const std::string& lines) {
    return read_gap(folder_.write("a.tsv", kHeader + lines));
  }
  std::string refusal_of(const std::string& line) {
    return place_of([&] { read_lines(line); });
  }
  const std::string kHeader =
      "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n";
};

TEST_F(Gap, HasItemsWithOneAntecedent) {
  const auto items = read_lines(
      "a\tZoë, Ann \"saw her\".\ther\t14\tZoë\t0\tFALSE\tAnn\t5\tTRUE\tu\n"
      "b\tZoë, Ann saw her.\ther\t13\tZoë\t0\tFALSE\tAnn\t5\tFALSE\tu\n"
      "c\tHer Zoë, 𝒜nn\tHer\t0\tZoë\t4\ttrue\t𝒜nn\t9\tFalse\tu\n");
  const std::vector<CoreferenceItem> expected = {
      {.id = "a",
       .text = "Zoë, Ann \"saw her\".",
       .pronoun = {15, 18},
       .right = {6, 9},
       .wrong = {0, 4}},
      {.id = "c", .text = "Her Zoë, 𝒜nn", .pronoun = {0, 3}, .right = {4, 8}, .wrong = {10, 16}}};
  EXPECT_EQ(items, expected);
  EXPECT_EQ(read_gap(folder_.write("back.tsv", to_gap(items))), items);
  EXPECT_EQ(error_of([&] { read_lines(""); }).what, "gap: no pronoun with one right name");
}

TEST_F(Gap, RefusesWhatDoesNotFit) {
  const std::string text = "a\tAn, Bo, he\t";
  EXPECT_EQ(refusal_of(text + "he\t8\tAn\t0\tTRUE\tBo\t4\tFALSE\n"),
            "a.tsv, line 2: gap: a line has other columns");
  EXPECT_EQ(refusal_of("\n"), "a.tsv, line 2: gap: a line has other columns");
  for (const char* const at : {"7", "9", "-1", "x", "", "11", "99999999999999999999", "8 "}) {
    EXPECT_EQ(refusal_of(text + "he\t" + at + "\tAn\t0\tTRUE\tBo\t4\tFALSE\t\n"),
              "a.tsv, line 2: gap: a name is not where its offset says")
        << at;
  }
  EXPECT_EQ(refusal_of(text + "\t8\tAn\t0\tTRUE\tBo\t4\tFALSE\t\n"),
            "a.tsv, line 2: gap: a name is not where its offset says");
  EXPECT_EQ(refusal_of(text + "he\t8\tAn\t0\tyes\tBo\t4\tFALSE\t\n"),
            "a.tsv, line 2: gap: neither true nor false");
  EXPECT_EQ(place_of([&] { read_gap(folder_.write("a.tsv", "ID\tText\n")); }),
            "a.tsv, line 1: gap: a column is missing");
  EXPECT_EQ(place_of([&] { read_gap(folder_.write("a.tsv", "")); }),
            "a.tsv, line 0: gap: the file is empty");
  EXPECT_EQ(error_of([&] { to_gap({{.id = "x", .text = "a\nb"}}); }).what,
            "gap: this cannot be written");
}

std::string shown(const CoreferenceItem& item) {
  const auto part = [&](TokenSpan bytes) {
    return item.text.substr(bytes.begin, bytes.end - bytes.begin);
  };
  return part(item.pronoun) + ": " + part(item.right) + ", not " + part(item.wrong) + " in " +
         item.text;
}

TEST_F(Treebank, EntitiesGiveTheNearestAntecedentAndAnotherOfItsType) {
  const auto items = entities(
      "# newdoc;# global.Entity = eid-etype-head;1|Old|ADJ|_|_|Entity=(e1-person-2;"
      "2|Ann|PROPN|_|_|Entity=e1);3|met|VERB|_|_;4|Bo|PROPN|_|_|Entity=(e2-person-1);"
      "5|in|ADP|_|_;6|Rome|PROPN|_|_|Entity=(e3-place-1);;"
      "1|She|PRON|_|_|Entity=(e1-person-1);2|saw|VERB|_|_;3|his|PRON|_|_|Entity=(e4-person-2(e2-"
      "person-1);"
      "4|dog|NOUN|_|_|Entity=e4);5|and|CCONJ|_|_;6|it|PRON|_|_|Entity=(e4-person-1);;"
      "# newdoc;1|She|PRON|_|_|Entity=(e1-person-1)");
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(shown(items[0]),
            "She: Old Ann, not Bo in Old Ann met Bo in Rome She saw his dog and it");
  EXPECT_EQ(shown(items[1]),
            "his: Bo, not Old Ann in Old Ann met Bo in Rome She saw his dog and it");
  EXPECT_EQ(shown(items[2]),
            "it: his dog, not Bo in Old Ann met Bo in Rome She saw his dog and it");
  EXPECT_EQ(items[0].id, "sentence 2, word 1");
  EXPECT_EQ(read_gap(folder_.write("back.tsv", to_gap(items))), items);
}

TEST_F(Treebank, EntitiesMayBeNestedInPartsOrWithoutWords) {
  // GUM's form, with the entity in the second place; closing brackets repeat what is before it.
  const auto items = entities(
      "# global.Entity = "
      "entity-GRP-infstat;1|Ann|PROPN|_|_|Entity=(person-1-new(person-2-new(person-2-giv);"
      "2|of|ADP|_|_;3|Ur|PROPN|_|_|Entity=person-2)person-1);"
      "4|Bo|PROPN|_|_|Entity=(person-7-new;4.1|_|_|_|_|Entity=(person-8-new);"
      "5|Cy|PROPN|_|_|Entity=person-7);6|Di|PROPN|_|_|Entity=(person-9[1/2]-new);"
      "7|he|PRON|_|_|Entity=(person-1-giv)");
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(shown(items[0]), "he: Ann of Ur, not Bo Cy in Ann of Ur Bo Cy Di he");
}

/// As CorefUD writes it: parts that are left out at the end, nested mentions of one entity,
/// mentions that cross, one in two parts with others between, one of an empty node, links to other
/// mentions, a comma and an escaped hyphen in names, ids that begin anew in every document.
TEST_F(Treebank, EntitiesAsInCorefUd) {
  const auto items = entities(
      "# newdoc id = news-1;# global.Entity = eid-etype-head-minspan-infstat-link-identity;"
      "# sent_id = news-1-1;# text = The mayor of Ur, Ann Lee, met her old friends, Bo and Cy.;"
      "1|The|DET|2|det|Entity=(e1-person-2-1,2,6,7-new-coref-Ann_Lee%2DRoss;"
      "2|mayor|NOUN|10|nsubj|_;3|of|ADP|4|case|_;"
      "4|Ur|PROPN|2|nmod|Entity=(e2-place-1-1-new--Ur)|SpaceAfter=No;5|,|PUNCT|2|punct|_;"
      "6|Ann|PROPN|2|appos|Entity=(e1-person-1-1,2-giv:act-appos;"
      "7|Lee|PROPN|6|flat|Entity=e1)e1)|SpaceAfter=No;8|,|PUNCT|2|punct|_;9|met|VERB|0|root|_;"
      "10|her|PRON|12|nmod:poss|Entity=(e3-person-3-1,2,3-new-ana(e1-person-1-1-giv:act-ana);"
      "11|old|ADJ|12|amod|_;12|friends|NOUN|9|obj|SpaceAfter=No;13|,|PUNCT|14|punct|_;"
      "14|Bo|PROPN|12|appos|Entity=(e4-person-1-1-new)|SplitAnte=e4<e3,e5<e3;"
      "15|and|CCONJ|16|cc|_;16|Cy|PROPN|14|conj|Entity=(e5-person-1-1-new)e3)|SpaceAfter=No;"
      "17|.|PUNCT|9|punct|_;;"
      "# sent_id = news-1-2;# text = Both the guests and, he said, the hosts saw him.;"
      "1|Both|CCONJ|3|cc:preconj|Entity=(e6[1/2]-person-3-1,2,3-new;2|the|DET|3|det|_;"
      "3|guests|NOUN|11|nsubj|_;4|and|CCONJ|10|cc|Entity=e6[1/"
      "2])|SpaceAfter=No;5|,|PUNCT|7|punct|_;"
      "5.1|_|_|_|_|Entity=(e7-person-1);"
      "6|he|PRON|7|nsubj|Bridge=e3<e4|Entity=(e4-person-1);7|said|VERB|11|parataxis|SpaceAfter=No;"
      "8|,|PUNCT|7|punct|_;9|the|DET|10|det|Entity=(e6[2/2]-person-3-1,2,3-new(e8-person-2;"
      "10|hosts|NOUN|3|conj|Entity=e6[2/2])e8);11|saw|VERB|0|root|_;"
      "12|him|PRON|11|obj|Entity=(e5-person-1)|SpaceAfter=No;13|.|PUNCT|11|punct|_;;"
      "# newdoc id = news-2;# sent_id = news-2-1;1|She|PRON|2|nsubj|Entity=(e1-person-1);"
      "2|left|VERB|0|root|_");
  std::vector<std::string> got;
  for (const CoreferenceItem& item : items) {
    const auto part = [&](TokenSpan bytes) {
      return item.text.substr(bytes.begin, bytes.end - bytes.begin);
    };
    got.push_back(item.id + ": " + part(item.pronoun) + " = " + part(item.right) + ", not " +
                  part(item.wrong));
  }
  // "her" has no other person before it; of two in one place the mention that begins last is
  // nearest.
  EXPECT_THAT(got, ElementsAre("news-1-2, word 6: he = Bo, not Cy",
                               "news-1-2, word 12: him = Cy, not the hosts"));
}

TEST_F(Treebank, EntitiesNeedAntecedentsWithinReach) {
  const std::string begin = "1|Ann|PROPN|_|_|Entity=(a);2|Bo|PROPN|_|_|Entity=(b);;";
  const std::string gap = "1|and|CCONJ|_|_;;";
  const std::string end = "1|she|PRON|_|_|Entity=(a)";
  EXPECT_EQ(entities(begin + gap + gap + end).size(), 1u);
  EXPECT_EQ(entities(begin + gap + gap + gap + end).size(), 0u);
  EXPECT_EQ(entities(begin + "1|" + std::string(1985, 'x') + "|X|_|_;;" + end).size(), 1u);
  EXPECT_EQ(entities(begin + "1|" + std::string(1990, 'x') + "|X|_|_;;" + end).size(), 0u);
  EXPECT_EQ(entities("1|Ann|PROPN|_|_|Entity=(a);;" + end).size(), 0u);
}

TEST_F(Treebank, RefusesBracketsThatDoNotFitTogether) {
  const auto refused = [&](const std::string& brackets) {
    return place_of([&] { entities("1|a|X|_|_;2|b|X|_|_|Entity=" + brackets); });
  };
  for (const char* const brackets : {"e1", "(", ")", "()", "(e1)e", "((e1)", "(e1))"}) {
    EXPECT_EQ(refused(brackets),
              "a.conllu, line 2: conllu: brackets of entities that do not fit together")
        << brackets;
  }
  EXPECT_EQ(refused("(-person)"), "a.conllu, line 2: conllu: a mention without an entity");
  EXPECT_EQ(refused("(e1"), "a.conllu, line 2: conllu: a mention does not end");
  EXPECT_EQ(refused("e1)"), "a.conllu, line 2: conllu: a mention ends that did not begin");
  EXPECT_EQ(refused("(e1-person)"),
            "a.conllu, line 2: conllu: nothing says what the parts of a mention are");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "(e";
  EXPECT_EQ(refused(deep), "a.conllu, line 2: conllu: too many mentions within each other");
  EXPECT_EQ(place_of([&] { entities("1|a|X|_|_"); }), "a.conllu: conllu: no entities");
}

Encoding encoding_of(const std::vector<std::pair<TokenSpan, int>>& tokens) {
  Encoding encoding;
  for (const auto& [bytes, sequence] : tokens) {
    encoding.ids.push_back(0);
    encoding.bytes.push_back(bytes);
    encoding.sequence.push_back(static_cast<int8_t>(sequence));
  }
  return encoding;
}

TEST(TokensOfSpans, AreThoseThatTouchThem) {
  // [CLS] ▁don 't ▁ é (two byte tokens) end [SEP]
  const Encoding encoding = encoding_of({{{0, 0}, -1},
                                         {{0, 4}, 0},
                                         {{4, 6}, 0},
                                         {{6, 7}, 0},
                                         {{7, 9}, 0},
                                         {{7, 9}, 0},
                                         {{9, 12}, 0},
                                         {{0, 0}, -1}});
  EXPECT_THAT(tokens_of_spans(encoding, {{1, 3}, {3, 6}, {7, 12}}),
              ElementsAre(TokenSpan{1, 2}, TokenSpan{2, 3}, TokenSpan{4, 7}));
  EXPECT_THAT(tokens_of_spans(encoding, {{1, 6}, {1, 6}}),
              ElementsAre(TokenSpan{1, 3}, TokenSpan{0, 0}));
  EXPECT_THAT(tokens_of_spans(encoding, {{7, 9}, {1, 12}}),
              ElementsAre(TokenSpan{4, 6}, TokenSpan{1, 4}));
  EXPECT_THAT(tokens_of_spans(encoding, {{8, 8}, {20, 30}, {11, 12}}),
              ElementsAre(TokenSpan{0, 0}, TokenSpan{0, 0}, TokenSpan{6, 7}));
  EXPECT_THAT(tokens_of_spans({}, {{0, 5}}), ElementsAre(TokenSpan{0, 0}));
}

}  // namespace
}  // namespace headwise
