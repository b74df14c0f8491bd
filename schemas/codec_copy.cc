// SPDX-License-Identifier: Apache-2.0
// Codecs of the messages by which copies of checkpoints travel.
#include "schemas/codec_internal.h"

namespace troupe::schemas {

void put(wire::PieceQuery::Builder out, const PieceQuery& m) {
  const auto& [number, job, generation, folder, file, offset, bytes] = m;
  out.setNumber(number);
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setFolder(text_of(folder));
  out.setFile(text_of(file));
  out.setOffset(offset);
  out.setBytes(bytes);
}

void get(wire::PieceQuery::Reader in, PieceQuery& out, Intake& intake) {
  out.number = in.getNumber();
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  intake.name(in.getFolder(), "folder", out.folder);
  intake.name(in.getFile(), "file", out.file);
  out.offset = in.getOffset();
  out.bytes = in.getBytes();
}

void put(wire::FilePiece::Builder out, const FilePiece& m) {
  const auto& [number, code, text, file_bytes, bytes] = m;
  out.setNumber(number);
  out.setCode(code_of(code));
  out.setText(text_of(text));
  out.setFileBytes(file_bytes);
  out.setBytes(data_of(bytes));
}

void get(wire::FilePiece::Reader in, FilePiece& out, Intake& intake) {
  out.number = in.getNumber();
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  out.file_bytes = in.getFileBytes();
  intake.text(in.getBytes(), kPieceBytesMax, "bytes", out.bytes);
}

void put(wire::PlaceCheckpoint::Builder out, const PlaceCheckpoint& m) {
  const auto& [job, generation, folder, checkpoint, files] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setFolder(text_of(folder));
  out.setCheckpoint(text_of(checkpoint));
  put_numbers(out.initFiles(size_of(files)), files);
}

void get(wire::PlaceCheckpoint::Reader in, PlaceCheckpoint& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  intake.name(in.getFolder(), "folder", out.folder);
  intake.name(in.getCheckpoint(), "checkpoint", out.checkpoint);
  intake.numbers(in.getFiles(), kRanksMax, "files", out.files);
}

void put(wire::CheckpointPlaced::Builder out, const CheckpointPlaced& m) {
  const auto& [job, generation, code, text] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setCode(code_of(code));
  out.setText(text_of(text));
}

void get(wire::CheckpointPlaced::Reader in, CheckpointPlaced& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::DropCheckpoint::Builder out, const DropCheckpoint& m) {
  const auto& [folder, checkpoint, older] = m;
  out.setFolder(text_of(folder));
  out.setCheckpoint(text_of(checkpoint));
  out.setOlder(older);
}

void get(wire::DropCheckpoint::Reader in, DropCheckpoint& out, Intake& intake) {
  intake.name(in.getFolder(), "folder", out.folder);
  intake.name(in.getCheckpoint(), "checkpoint", out.checkpoint);
  out.older = in.getOlder();
}

}  // namespace troupe::schemas
