// `vicinal help [COMMAND]`: what --help prints.
#include <memory>

#include "command.hpp"
#include "output.hpp"

namespace cli {

Command register_help(App& root) {
  auto command = std::make_shared<std::string>();
  App app = root.add_subcommand("help", "Say what vicinal or one of its commands does");
  std::string names;
  for (const CommandNode& one : root.commands()) names += (names.empty() ? "" : "|") + one.name;
  app.add_text("COMMAND", *command, "whose help to print (default: of the whole)").type_name(names);
  app.footer("Examples:\n  vicinal help knn");
  return {app, [command](Context& context) {
            print(context.root.help(*command));
            return 0;
          }};
}

}  // namespace cli
