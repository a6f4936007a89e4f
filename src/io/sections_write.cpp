// Writing .vicinal files: one pass over the contents, which are hashed, checked and written a block at a time, and then
// the header and the table into the place that was left for them.
#include <algorithm>

#include "io/crc32c.hpp"
#include "io/layout.hpp"

namespace vicinal::io {
namespace {

using namespace layout;

/// Zeros up to the next place where something may begin.
void pad(FileSink& out) {
  constexpr std::byte zeros[section_alignment] = {};
  out.append(Bytes(zeros).first(aligned(out.size()) - out.size()));
}

}  // namespace

SectionWriter::SectionWriter(FileSink& out, const FileKind& kind, std::size_t count)
    : out_(out), kind_(kind), count_(count) {
  out_.append(std::vector<std::byte>(file_header + count * section_entry));
}

void SectionWriter::begin(std::uint32_t type) {
  pad(out_);
  Section section;
  section.type = type;
  section.offset = out_.size();
  sections_.push_back(section);
  hash_ = Hash128();
}

void SectionWriter::append(Bytes bytes) {
  while (!bytes.empty()) {
    const Bytes part = bytes.first(std::min(bytes.size(), section_block - filled_));
    crc_ = crc32c(part, crc_);
    hash_.update(part);
    out_.append(part);
    filled_ += part.size();
    if (filled_ == section_block) end_block();
    bytes = bytes.subspan(part.size());
  }
}

void SectionWriter::end_block() {
  list_.push_back(crc_);
  crc_ = 0;
  filled_ = 0;
}

void SectionWriter::end() {
  if (filled_ != 0) end_block();
  Section& section = sections_.back();
  section.length = out_.size() - section.offset;
  section.hash = hash_.digest();
  const Bytes list = as_bytes(list_.data(), 4 * list_.size());
  section.list_crc = crc32c(list);
  pad(out_);
  section.list = out_.size();
  out_.append(list);
  list_.clear();
}

void SectionWriter::finish(std::vector<std::byte> header) {
  std::vector<std::byte> table(count_ * section_entry);
  for (std::size_t i = 0; i < count_; ++i) {
    std::byte* const entry = table.data() + i * section_entry;
    const Section& section = sections_[i];
    store(entry + at_type, section.type);
    store(entry + at_list_crc, section.list_crc);
    store(entry + at_offset, section.offset);
    store(entry + at_length, section.length);
    store(entry + at_list, section.list);
    store(entry + at_hash, section.hash.low);
    store(entry + at_hash + 8, section.hash.high);
  }
  std::byte* const head = header.data();
  std::memcpy(head, layout::magic.data(), layout::magic.size());
  store(head + at_major, major_version);
  store(head + at_minor, minor_version);
  store(head + at_kind, kind_.number);
  store(head + at_semantics, semantics);
  store(head + at_sections, static_cast<std::uint32_t>(count_));
  store(head + at_table_crc, crc32c(table));
  store(head + at_table, std::uint64_t{file_header});
  store(head + at_file_size, out_.size());
  store(head + at_header_crc, crc32c({head, at_header_crc}));
  out_.patch(0, header);
  out_.patch(file_header, table);
}

std::uint64_t SectionWriter::file_size(const std::vector<std::uint64_t>& lengths) noexcept {
  std::uint64_t end = file_header + lengths.size() * section_entry;
  for (const std::uint64_t length : lengths) {
    Section section;
    section.length = length;
    end = aligned(aligned(end) + length) + section.list_length();
  }
  return end;
}

}  // namespace vicinal::io
