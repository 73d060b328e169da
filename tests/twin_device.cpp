// A second device that any machine has: memory of its own name, arithmetic of the CPU.
//
// The invariant: what an accelerator refuses, this refuses. Operations run by the CPU's kernels on the
// same memory, and so give the CPU's bits; but tensors of two devices in one operation, a generator
// of another device, and memory read from outside are errors here as they are there.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <cstring>

namespace {

constexpr auto kTwin = c10::DeviceType::PrivateUse1;

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? std::malloc(bytes) : nullptr;
    return {data, data, &std::free, c10::Device(kTwin, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};
Allocator allocator;
REGISTER_ALLOCATOR(kTwin, &allocator);

// One device, one stream; whatever is asked of it is done when it returns, so events are over.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTwin; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  c10::Device here() const { return {kTwin, 0}; }
  c10::Stream stream() const { return c10::Stream(c10::Stream::DEFAULT, here()); }
  c10::Device exchangeDevice(c10::Device) const override { return here(); }
  c10::Device getDevice() const override { return here(); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// The same memory under the CPU's name: only for what copies between the two.
at::Tensor as_cpu(const at::Tensor& t) {
  if (!t.defined() || t.device().type() != kTwin) return t;
  if (!t.numel()) return at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kCPU));
  auto seen = at::from_blob(t.data_ptr(), t.sizes(), t.strides(), t.options().device(at::kCPU).requires_grad(false));
  if (t.is_conj()) seen._set_conj(true);
  if (t.is_neg()) seen._set_neg(true);
  return seen;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  at::NoGradGuard off;
  as_cpu(to).copy_(as_cpu(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (self.sizes() == sizes) return self;
  impl->set_sizes_contiguous(sizes);
  auto bytes = (impl->storage_offset() + impl->numel()) * self.itemsize();
  auto& storage = const_cast<c10::Storage&>(impl->storage());
  if (bytes > (int64_t)storage.nbytes()) {
    auto fresh = allocator.allocate(bytes);
    if (storage.nbytes()) std::memcpy(fresh.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(bytes);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt offset,
                        c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), offset.expect_int());
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  c10::SymInt whole = static_cast<int64_t>(source.nbytes() / self.itemsize()), one = 1;
  return set_storage(self, std::move(source), 0, c10::SymIntArrayRef(whole), c10::SymIntArrayRef(one));
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  std::optional<int64_t> at = offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt;
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), at);
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

int64_t plain_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) {
  return 0;  // by products, as where there is no fused kernel
}

// A convolution has one kernel a device, behind a door of its own for devices that torch does not know.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  std::optional<at::Tensor> bias = b && b->defined() ? std::optional<at::Tensor>(b->cpu()) : std::nullopt;
  return at::convolution_symint(x.cpu(), w.cpu(), bias, stride, padding, dilation, transposed,
                                output_padding, groups).to(x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& g, const at::Tensor& x, const at::Tensor& w, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> asked) {
  auto outs = transposed ? w.sym_size(1) * groups : w.sym_size(0);
  auto [gx, gw, gb] = at::convolution_backward_symint(
      g.cpu(), x.cpu(), w.cpu(), c10::SymIntArrayRef(&outs, 1), stride, padding, dilation, transposed,
      output_padding, groups, asked);
  auto there = [&](const at::Tensor& t) { return t.defined() ? t.to(x.device()) : t; };
  return {there(gx), there(gw), there(gb)};
}

void look(const c10::IValue& value, bool& ours, const at::Tensor*& theirs) {
  if (value.isTensor() && value.toTensor().defined()) {
    const auto& t = value.toTensor();
    if (t.device().type() == kTwin) ours = true;
    else if (t.dim() > 0) theirs = &t;
  } else if (value.isList()) {
    for (const auto& one : value.toListRef()) look(one, ours, theirs);
  }
}

bool may_be_cpu(const std::string& name) {  // the indices, of what lies here
  return name == "aten::index" || name == "aten::_index_put_impl" || name == "aten::_index_put_impl_" ||
         name == "aten::index_put" || name == "aten::index_put_";
}

// What is drawn here is drawn from a generator of this device, whose turn it is in the CPU's place.
at::Generator& chance() {
  static at::Generator own = at::detail::createCPUGenerator(0);
  return own;
}

void trade(at::Generator& own) {
  auto common = at::detail::getDefaultCPUGenerator();
  auto before = common.get_state();
  common.set_state(own.get_state());
  own.set_state(before);
}

// What an operation of the CPU is given in the place of an argument: the same memory, by its name. An
// output is new, for it may be of another size in the end.
c10::IValue lent(const c10::IValue& value, bool out) {
  if (out && value.isTensor()) return at::empty({0}, value.toTensor().options().device(at::kCPU));
  if (value.isTensor()) return value.toTensor().defined() ? as_cpu(value.toTensor()) : value.toTensor();
  if (value.isDevice()) return value.toDevice().type() == kTwin ? c10::Device(at::kCPU) : value.toDevice();
  if (value.isTensorList()) {
    c10::List<at::Tensor> found;
    for (const at::Tensor& t : value.toTensorVector()) found.push_back(as_cpu(t));
    return found;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> found;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      found.push_back(t && t->defined() ? std::optional<at::Tensor>(as_cpu(*t)) : t);
    return found;
  }
  return value;
}

at::Tensor brought(const at::Tensor& t) {
  auto to = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::Device(kTwin, 0)));
  return copy_from(t, to, false);
}

// What came out: an argument that was written to is itself, all else is new, and is brought here.
c10::IValue returned(const c10::IValue& value, const c10::AliasInfo* alias, const c10::FunctionSchema& schema,
                     const std::vector<c10::IValue>& given) {
  if (alias && alias->isWrite()) {
    for (size_t i = 0; i < given.size(); ++i) {
      const auto* other = schema.arguments()[i].alias_info();
      if (other && *other == *alias) return given[i];
    }
  }
  TORCH_CHECK(!alias, "the twin has no view of its own for ", schema.operator_name());
  if (value.isTensor() && value.toTensor().defined()) return brought(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> found;
    for (const at::Tensor& t : value.toTensorVector()) found.push_back(brought(t));
    return found;
  }
  return value;
}

void require_here(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given) {
  bool ours = false;
  const at::Tensor* theirs = nullptr;
  for (const auto& value : given) {
    look(value, ours, theirs);
    TORCH_CHECK(!value.isGenerator() || value.toGenerator().device().type() == kTwin,
                "Expected a 'twin' device type for generator but found 'cpu' (", schema.operator_name(), ")");
  }
  TORCH_CHECK(!(ours && theirs) || may_be_cpu(schema.name()),
              "Expected all tensors to be on the same device, but found at least two devices, twin:0 and cpu (",
              schema.operator_name(), ")");
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  auto given = torch::jit::pop(*stack, schema.arguments().size());
  require_here(schema, given);
  std::vector<c10::IValue> passed;
  for (size_t i = 0; i < given.size(); ++i) passed.push_back(lent(given[i], schema.arguments()[i].is_out()));
  stack->insert(stack->end(), passed.begin(), passed.end());
  bool draws = op.hasTag(at::Tag::nondeterministic_seeded);
  if (draws) trade(chance());
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  if (draws) trade(chance());
  for (size_t i = 0; i < given.size(); ++i)
    if (schema.arguments()[i].is_out() && given[i].isTensor())
      copy_from_and_resize(passed[i].toTensor(), given[i].toTensor());
  auto found = torch::jit::pop(*stack, schema.returns().size());
  for (size_t i = 0; i < found.size(); ++i)
    stack->push_back(returned(found[i], schema.returns()[i].alias_info(), schema, given));
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isAvailable() const override { return true; }
};
Hooks hooks;
const bool registered = (at::RegisterPrivateUse1HooksInterface(&hooks), true);

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &resize);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_fused_sdp_choice", &plain_attention);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY(twin, m) {
  m.def("rng_state() -> Tensor", [] { return chance().get_state(); });
  m.def("set_rng_state(Tensor state) -> ()", [](const at::Tensor& state) { chance().set_state(state); });
  m.def("manual_seed(int seed) -> ()", [](int64_t seed) { chance().set_current_seed(seed); });
}
