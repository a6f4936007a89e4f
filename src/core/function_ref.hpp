// A FunctionRef is a parameter for a function that is called before the call it was passed to returns: two words, where
// std::function allocates memory for what a lambda captures.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

namespace vicinal {

template <class Signature>
class FunctionRef;

/// FunctionRef borrows a function, which must outlive it; as a parameter it does.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Function, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<Function>, FunctionRef> &&
                                                     std::is_invocable_r_v<Result, Function&, Args...>>>
  FunctionRef(Function&& function) noexcept  // NOLINT(google-explicit-constructor)
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* at, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Function>*>(at))(std::forward<Args>(args)...);
        }) {}
  Result operator()(Args... args) const { return call_(function_, std::forward<Args>(args)...); }

 private:
  void* function_;
  Result (*call_)(void*, Args...);
};

}  // namespace vicinal
