// Package config reads and validates the settings of a node.
//
// Each setting has one name: with dashes it is the flag, with underscores the YAML key, and in capitals
// with the prefix SHARDWAY_ the environment variable. One table (settings.go) contains all settings with
// their defaults and help texts. Flags override the environment, the environment overrides the file, and
// the file overrides the defaults. A list replaces the list of a lower layer; lists are not merged.
//
// # Types
//
//   - Config contains the settings of a node. Load returns it from a command line, an environment and a
//     file. Compose does so for a program that embeds a node.
//   - Error contains all Problems of a configuration. Each Problem has the key, the value, the origin of
//     the value, the error and the remedy.
//   - Bound is a condition between timings, and Figure a value that follows from them.
//   - Changes contains the differences between two Configs, for a reload.
//
// # Concurrency
//
// A Config is immutable after Load, so any number of goroutines may read it.
//
// # Invariants
//
//   - Load is pure: it uses only its arguments, and reads the file with a function of the caller.
//   - Only internal/cli, embed and node/process use a Config. Other packages have their own Options.
package config
