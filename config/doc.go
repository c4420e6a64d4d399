// Package config reads and judges the settings of a node.
//
// A setting has one name. The name with dashes is the flag, with underscores
// the YAML key, in capitals behind SHARDWAY_ the environment variable; one
// table (settings.go) holds all of them with their defaults and help texts.
// A flag beats the environment, the environment beats the file, the file beats
// the default. A list replaces the list below it, it is never merged.
//
// Load is pure: what it knows comes from its arguments, and the file is read by
// a function that the caller gives. It never stops at the first mistake: every
// one is in the returned Error, with its key, its value, where the value
// came from, and what to do about it.
//
// Only internal/cli and node see a Config; every other package takes an Options
// value of its own. A Config does not change once loaded, so any number of
// goroutines may read it.
package config
