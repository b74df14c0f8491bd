// SPDX-License-Identifier: Apache-2.0
// Files of choices as JSON, and the texts that calls are known by.
#include "symbol/kernel_choices.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "ops/op.h"

namespace troupe::symbol {

namespace {

using base::Errc;
using nlohmann::json;
using ordered_json = nlohmann::ordered_json;

constexpr int kVersion = 1;

template <typename... Args>
base::Status malformed(fmt::format_string<Args...> text, Args&&... args) {
  return {Errc::invalid_argument, fmt::format(text, std::forward<Args>(args)...)};
}

base::Result<json> parse(std::string_view text) {
  if (text.size() > kKernelChoicesBytesMax) {
    return base::error(Errc::resource_exhausted, "has {} bytes; the limit is {}", text.size(),
                       kKernelChoicesBytesMax);
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& fault) {
    return malformed("byte {}: not JSON", fault.byte);
  } catch (const json::exception& fault) {
    // What it has of a number that no double holds may be long.
    return malformed("{}", base::shortened(fault.what(), base::kQuotedBytesMax));
  }
}

/// A member that must be text, and not empty.
base::Result<std::string> text_of(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string() || it->get_ref<const std::string&>().empty()) {
    return malformed("has no text '{}'", key);
  }
  return it->get<std::string>();
}

base::Status read_seconds(const json& entry, KernelChoice& choice) {
  const auto it = entry.find("seconds");
  if (it == entry.end()) return {};
  if (!it->is_object()) return malformed("'seconds' must be an object of numbers");
  for (const auto& [kernel, seconds] : it->items()) {
    if (!seconds.is_number() || !(seconds.get<double>() >= 0)) {
      return malformed("'seconds' of '{}' must be a number >= 0", kernel);
    }
    choice.seconds[kernel] = seconds.get<double>();
  }
  return {};
}

base::Status read_choice(const json& entry, KernelChoices& choices) {
  if (!entry.is_object()) return malformed("must be an object");
  TROUPE_TRY_ASSIGN(const std::string call, text_of(entry, "call"));
  for (const char* pass : {"train reorder(", "predict reorder("}) {
    if (call.starts_with(pass)) return malformed("no kernel can be chosen for a reorder");
  }
  KernelChoice choice;
  TROUPE_TRY_ASSIGN(choice.kernel, text_of(entry, "kernel"));
  // decisions() has a line for each.
  if ((call + choice.kernel).find('\n') != std::string::npos) {
    return malformed("'call' and 'kernel' are one line each");
  }
  TROUPE_TRY(read_seconds(entry, choice));
  if (choices.calls.emplace(call, std::move(choice)).second) return {};
  return malformed("there is one for '{}' already", call);
}

base::Status read(std::string_view text, KernelChoices& choices) {
  TROUPE_TRY_ASSIGN(const json file, parse(text));
  if (!file.is_object() || !file.contains("troupe_kernels")) {
    return malformed("is no file of kernel choices: it has no 'troupe_kernels'");
  }
  const json& version = file["troupe_kernels"];
  if (!version.is_number_integer()) return malformed("'troupe_kernels' must be a version number");
  if (version != kVersion) {
    return base::error(Errc::version_mismatch,
                       "has version {} of kernel choices, this program reads version {}",
                       version.dump(), kVersion);
  }
  TROUPE_TRY_ASSIGN(choices.machine, text_of(file, "machine"));
  const auto entries = file.find("choices");
  if (entries == file.end() || !entries->is_array()) return malformed("has no array 'choices'");
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const base::Status status = read_choice((*entries)[i], choices);
    if (!status.ok()) return status.with_context(fmt::format("choices[{}]", i));
  }
  return {};
}

std::string tensors_text(const std::vector<ops::TensorDesc>& tensors) {
  std::string text;
  for (const ops::TensorDesc& tensor : tensors) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", base::dtype_name(tensor.dtype),
                        tensor.shape.to_string());
    if (!tensor.layout.is_dense()) text += " " + tensor.layout.to_string();
  }
  return text;
}

}  // namespace

const KernelChoice* KernelChoices::find(const std::string& call) const {
  const auto it = calls.find(call);
  return it == calls.end() ? nullptr : &it->second;
}

std::string KernelChoices::decisions() const {
  std::string text;
  for (const auto& [call, choice] : calls) text += fmt::format("{}: {}\n", call, choice.kernel);
  return text;
}

std::string KernelChoices::to_json() const {
  ordered_json entries = ordered_json::array();
  for (const auto& [call, choice] : calls) {
    entries.push_back({{"call", call}, {"kernel", choice.kernel}, {"seconds", choice.seconds}});
  }
  const ordered_json file = {
      {"troupe_kernels", kVersion}, {"machine", machine}, {"choices", std::move(entries)}};
  return file.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

base::Result<KernelChoices> KernelChoices::from_json(std::string_view text,
                                                     const std::string& name) {
  KernelChoices choices;
  choices.name = name;
  const base::Status status = read(text, choices);
  if (!status.ok()) return status.with_context(name);
  return choices;
}

base::Result<KernelChoices> KernelChoices::load(const std::string& path) {
  TROUPE_TRY_ASSIGN(const std::string text,
                    base::read_text_file(path, kKernelChoicesBytesMax, base::FileKind::any));
  return from_json(text, path);
}

std::string unused_choices_text(const std::string& file) {
  return fmt::format(
      "{} has no call of these steps: it was tuned for another network, batch, image, dtype or "
      "kind of device, or with another tf32 or layout",
      file);
}

std::string call_signature(const ops::OpCall& call, bool train) {
  std::string params;
  for (const auto& [name, value] : call.params.to_attributes()) {
    const ops::ParamDef* param = call.op->find_param(name);
    if (param->initial && ops::to_attribute(*param->initial) == value) continue;
    params += fmt::format("{}{}={}", params.empty() ? "" : ", ", name, value);
  }
  const bool on_gpu = call.device.kind == base::DeviceKind::cuda;
  // Where no layout is free there are other kernels.
  const bool fixed = std::ranges::none_of(
      call.outputs, [](const ops::TensorDesc& output) { return output.any_layout; });
  return fmt::format("{} {}({}) {} -> {}{}{}", train ? "train" : "predict", call.op->name, params,
                     tensors_text(call.inputs), tensors_text(call.outputs),
                     fixed ? " in fixed layouts" : "",
                     !on_gpu     ? ""
                     : call.tf32 ? " on a GPU in TF32"
                                 : " on a GPU");
}

}  // namespace troupe::symbol
