// Safetensors files that are not what they claim: each is refused by name.
#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

Safetensors parse(std::string_view file) {
  const TemporaryFolder folder;
  return parse_safetensors(InputFile(folder.write("dir/m.safetensors", file)));
}

ErrorDetail refused_file(const std::string& file) {
  return error_of([&] { parse(file); });
}

ErrorDetail refused_header(const std::string& header, const std::string& data = "") {
  return refused_file(safetensors(header, data));
}

auto says(const char* what, const char* where, const char* got, const char* expected) {
  return AllOf(
      Field("what", &ErrorDetail::what, HasSubstr(what)),
      Field("where", &ErrorDetail::where, AllOf(HasSubstr("dir/m.safetensors"), HasSubstr(where))),
      Field("got", &ErrorDetail::got, HasSubstr(got)),
      Field("expected", &ErrorDetail::expected, HasSubstr(expected)));
}

std::string tensor(const std::string& name, const std::string& shape, int begin, int end,
                   const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(SafetensorsFile, MayHoldNothingScalarsEmptyTensorsAndMetadata) {
  EXPECT_THAT(parse(safetensors("{}")).tensors, IsEmpty());
  const std::string file =
      safetensors("{" + tensor("s", "[]", 0, 4) + "," + tensor("none", "[3,0]", 4, 4) + "," +
                      tensor("first", "[0]", 0, 0) + R"(,"__metadata__":{"format":"pt"}}  )",
                  "abcd");
  const Safetensors parsed = parse(file);
  ASSERT_EQ(parsed.tensors.size(), 3u);
  EXPECT_EQ(parsed.tensors[0].name, "first");
  EXPECT_EQ(parsed.tensors[1].name, "s");
  EXPECT_EQ(parsed.tensors[1].size(), 1);
  EXPECT_EQ(parsed.tensors[1].offset, static_cast<int64_t>(file.size()) - 4);
  EXPECT_EQ(parsed.tensors[2].size(), 0);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
}

TEST(SafetensorsFile, MayHoldUnsignedNumbersBesideTheWeights) {
  for (const auto& [dtype, bytes] :
       {std::pair("U16", 2), std::pair("U32", 4), std::pair("U64", 8)}) {
    const Safetensors parsed = parse(safetensors("{" + tensor("n", "[1]", 0, bytes, dtype) + "}",
                                                 std::string(static_cast<size_t>(bytes), 'x')));
    EXPECT_EQ(to_string(parsed.tensors[0].dtype), dtype);
    EXPECT_EQ(byte_size(parsed.tensors[0].dtype), static_cast<size_t>(bytes));
    EXPECT_FALSE(is_float(parsed.tensors[0].dtype));
  }
}

TEST(SafetensorsFile, IsTooShort) {
  EXPECT_THAT(refused_file(""), says("too short", "", "0 bytes", "at least 8 bytes"));
  EXPECT_THAT(refused_file("1234567"), says("too short", "", "7 bytes", "at least 8 bytes"));
}

TEST(SafetensorsFile, HasAHeaderBeyondItsEndOrTheCap) {
  EXPECT_THAT(refused_file(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
              says("header's length cannot be", "", "9 bytes", "at most 2 bytes"));
  EXPECT_THAT(refused_file(std::string(8, '\xff') + "{}"),
              says("header's length cannot be", "", "18446744073709551615 bytes", "at most 2"));
  std::string above(8 + kLongestHeader + 1, ' ');
  const uint64_t length = kLongestHeader + 1;
  std::memcpy(above.data(), &length, sizeof(length));
  EXPECT_THAT(refused_file(above),
              says("header's length cannot be", "", "100000001 bytes", "at most 100000000 bytes"));
}

TEST(SafetensorsFile, IsTruncatedOrHasTrailingBytes) {
  const std::string header = "{" + tensor("w", "[2]", 0, 8) + "}";
  EXPECT_THAT(refused_header(header, "1234567"),
              says("truncated", "tensor \"w\"", "7 bytes of data", "at least 8 bytes"));
  EXPECT_THAT(refused_header(header, "123456789"),
              says("bytes after the last tensor", "", "9 bytes of data", "8 bytes"));
}

TEST(SafetensorsFile, IsAPickleOrAPointerInstead) {
  const auto zip = refused_file("PK\3\4 and so on, for a while");
  EXPECT_THAT(zip, says("this is a pickle", "", "a zip archive", "a safetensors file"));
  EXPECT_THAT(zip.hint, AllOf(HasSubstr("save_pretrained"), EndsWith("/dir'")));
  EXPECT_THAT(refused_file("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
              says("this is a pickle", "", "a pickle", "a safetensors file"));
  EXPECT_THAT(refused_file("version https://git-lfs.example/spec/v1\noid sha256:0"),
              says("not downloaded", "", "a Git LFS pointer", "a safetensors file"));
  // The first bytes of a pickle are also those of a header of 0x280 bytes.
  EXPECT_THAT(parse(safetensors("{}" + std::string(0x27e, ' '))).tensors, IsEmpty());
}

TEST(SafetensorsHeader, IsNoObject) {
  for (const char* header : {"[]", "1", "\"x\"", "null", " {}", ""}) {
    EXPECT_THAT(refused_header(header),
                says("the header is no JSON object", "", "", "begins with {"));
  }
}

TEST(SafetensorsHeader, IsNoJson) {
  EXPECT_THAT(refused_header("{\"a\":}"), says("not valid", ", header, byte 6", "}", "one JSON"));
  EXPECT_THAT(refused_header("{} {}"), says("not valid", "byte 4", "{", "one JSON"));
  EXPECT_THAT(refused_header("{\"\xff\":1}"), says("not valid", "byte 3", "UTF-8", "UTF-8"));
  EXPECT_THAT(refused_header("{\"a\":" + std::string(100000, '[')),
              says("nested too deeply", "header", "more than 64", "at most 64"));
}

TEST(SafetensorsHeader, HasAKeyTwice) {
  const std::string header = "{" + tensor("w", "[1]", 0, 4) + "," + tensor("w", "[1]", 4, 8) + "}";
  EXPECT_THAT(refused_header(header, "12345678"),
              says("a key is there twice", "header", "\"w\"", "once"));
  EXPECT_THAT(refused_header(R"({"w":{"dtype":"F32","dtype":"F16"}})"),
              says("a key is there twice", "header: w", "\"dtype\"", "once"));
}

TEST(SafetensorsHeader, HasNumbersThatAreNoSizes) {
  const auto with_shape = [](const std::string& shape) {
    return refused_header("{" + tensor("w", shape, 0, 4) + "}", "1234");
  };
  const char* place = "tensor \"w\".shape[0]";
  EXPECT_THAT(with_shape("[-1]"), says("no such number", place, "-1", "at least 0"));
  EXPECT_THAT(with_shape("[1.5]"), says("no such number", place, "1.5", "a whole number"));
  EXPECT_THAT(with_shape("[1e0]"), says("no such number", place, "1.0", "a whole number"));
  EXPECT_THAT(with_shape("[9223372036854775808]"),
              says("no such number", place, "9223372036854775808", "a whole number"));
  EXPECT_THAT(with_shape("[18446744073709551616]"),
              says("no such number", place, "1.8446744073709552e+19", "a whole number"));
  EXPECT_THAT(with_shape("[1e999]"), says("not valid", "byte", "1e999", "JSON"));
  EXPECT_THAT(with_shape("[true]"), says("no such number", place, "true", "a whole number"));
  EXPECT_THAT(with_shape("4"), says("no array", "tensor \"w\".shape", "4", "an array"));
  EXPECT_THAT(refused_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "1234"),
              says("no such number", "data_offsets[0]", "-4", "at least 0"));
}

TEST(SafetensorsHeader, HasMetadataThatIsNoText) {
  EXPECT_THAT(refused_header(R"({"__metadata__":{"step":3}})"),
              says("no string", "__metadata__.step", "3", "a string"));
  EXPECT_THAT(refused_header(R"({"__metadata__":[]})"),
              says("not an object", "__metadata__", "an array", "an object"));
}

TEST(SafetensorsHeader, HasAnUnknownDtypeOrField) {
  EXPECT_THAT(refused_header("{" + tensor("w", "[4]", 0, 4, "F8_E4M3") + "}", "1234"),
              says("unknown dtype", "tensor \"w\".dtype", "\"F8_E4M3\"", "BOOL, U8, I8, I16, U16"));
  EXPECT_THAT(refused_header(R"({"w":{"dtype":7,"shape":[],"data_offsets":[0,4]}})", "1234"),
              says("no string", "tensor \"w\".dtype", "7", "a string"));
  EXPECT_THAT(refused_header(R"({"w":{"scale":2}})"),
              says("unknown field", "tensor \"w\".scale", "2", "dtype, shape and data_offsets"));
  EXPECT_THAT(refused_header(R"({"w":{"dtype":"F32","shape":[1]}})"),
              says("missing", "tensor \"w\".data_offsets", "nothing", "a value"));
  EXPECT_THAT(refused_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})"),
              says("not a begin and an end", "data_offsets", "an array of 1", "two offsets"));
  EXPECT_THAT(refused_header(R"({"w":3})"), says("not an object", "tensor \"w\"", "3", "object"));
}

TEST(SafetensorsTensors, Overlap) {
  const std::string header = "{" + tensor("a", "[2]", 0, 8) + "," + tensor("b", "[2]", 4, 12) + "}";
  EXPECT_THAT(refused_header(header, "123456789012"),
              says("overlaps", "tensor \"b\"", "begin 4 before the end 8 of \"a\"", "begin 8"));
}

TEST(SafetensorsTensors, LeaveAHole) {
  const std::string header = "{" + tensor("a", "[1]", 0, 4) + "," + tensor("b", "[1]", 8, 12) + "}";
  EXPECT_THAT(refused_header(header, "123456789012"),
              says("a hole", "tensor \"b\"", "4 bytes after the end of \"a\"", "begin 4"));
  EXPECT_THAT(refused_header("{" + tensor("a", "[1]", 4, 8) + "}", "12345678"),
              says("a hole", "tensor \"a\"", "4 bytes after the end of the header", "begin 0"));
}

TEST(SafetensorsTensors, EndBeforeTheyBegin) {
  EXPECT_THAT(refused_header("{" + tensor("a", "[1]", 8, 4) + "}", "12345678"),
              says("ends before it begins", "tensor \"a\"", "[8, 4]", "begin"));
}

TEST(SafetensorsTensors, HaveASizeThatDoesNotFitTheShape) {
  EXPECT_THAT(refused_header("{" + tensor("a", "[3]", 0, 8) + "}", "12345678"),
              says("does not fit the shape", "tensor \"a\"", "8 bytes", "12 bytes for F32 [3]"));
  EXPECT_THAT(refused_header("{" + tensor("a", "[2,0]", 0, 8) + "}", "12345678"),
              says("does not fit the shape", "tensor \"a\"", "8 bytes", "0 bytes for F32 [2, 0]"));
  EXPECT_THAT(refused_header("{" + tensor("a", "[]", 0, 8) + "}", "12345678"),
              says("does not fit the shape", "tensor \"a\"", "8 bytes", "4 bytes for F32 []"));
}

TEST(SafetensorsTensors, HaveAShapeThatOverflowsOrIsAbsurd) {
  EXPECT_THAT(refused_header("{" + tensor("a", "[4294967296,4294967296]", 0, 0) + "}"),
              says("overflows", "tensor \"a\"", "shape [4294967296, 4294967296]", "below 2^63"));
  EXPECT_THAT(refused_header("{" + tensor("a", "[1,1,1,1,1,1,1,1,1]", 0, 4) + "}", "1234"),
              says("too many dimensions", "tensor \"a\"", "9", "at most 8"));
}

TEST(SafetensorsTensors, AreQuotedAndCutInMessages) {
  const auto error = refused_header("{\"\\u001b" + std::string(1000, 'x') + "\":3}");
  EXPECT_THAT(error.where, HasSubstr("tensor \"\\u001bxxx"));
  EXPECT_LT(error.where.size(), 200u);
}

}  // namespace
}  // namespace headwise
