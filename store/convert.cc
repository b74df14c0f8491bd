// SPDX-License-Identifier: Apache-2.0
// Buffers cast by the calling thread.
#include "store/convert.h"

#include "base/cast_values.h"

namespace troupe::store {

base::Result<base::Buffer> convert(const base::Buffer& values, base::DType from, base::DType to,
                                   base::BufferPool& pool, std::string_view holder) {
  if (from == to || !values) return values;
  const std::size_t count = values.size() / base::dtype_size(from);
  TROUPE_TRY_ASSIGN(base::Buffer made, pool.allocate(count * base::dtype_size(to), holder));
  convert_into(values, from, to, made.data());
  return made;
}

std::size_t convert_into(const base::Buffer& values, base::DType from, base::DType to,
                         std::byte* place) {
  const std::size_t count = values.size() / base::dtype_size(from);
  base::cast_values(from, values.data(), to, place, static_cast<std::int64_t>(count));
  return count * base::dtype_size(to);
}

}  // namespace troupe::store
