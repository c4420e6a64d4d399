// Package cli contains the command line of the program shardway.
//
// Run is the entry point. It parses the arguments, runs one command and returns its exit code. Most
// commands send requests to the admin port of a node with package admin/client, and print the
// response as text or, with --json, as JSON. The command run starts a node in this process, and
// announce a member of the gossip that is not a node.
//
// # Types
//
//   - grammar contains all commands. Each command is a struct whose fields are its flags and
//     arguments, with a method Run.
//   - target contains the common flags of commands that send requests to a node.
//   - session contains the environment and the outputs of a command.
//
// # Invariants
//
//   - Package config parses the settings of a node. The commands run, check and announce pass their arguments to
//     it unchanged, so that each setting is defined in one table only.
//   - exitCodes is the only table of exit codes. session.exit translates an error to an exit code.
//   - Text from a node or a file passes printable before it is printed, so that it cannot control the
//     terminal.
package cli
