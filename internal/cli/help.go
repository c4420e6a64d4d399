package cli

import (
	"fmt"
	"io"
	"strings"

	"shardway/config"
)

func checkHelp(w io.Writer) error {
	return settingsHelp(w, `Usage: shardway check [flags]

Reports all errors in the configuration of a node. It lists each setting with its source
(with --all also the defaults), and explains how the timings depend on each other.
The command accepts the flags of run, --all, --json, and --against ADDR, the admin address
of a running node. With --against, it compares the settings that must be equal on all
nodes with those of the cluster, and exits with 1 if a setting differs. It starts nothing.
`)
}

// settingsHelp writes intro and all flags of run, from the table of package config.
func settingsHelp(w io.Writer, intro string) error {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString(`
Each flag is also an environment variable and a key of the YAML file: --drain-timeout is
SHARDWAY_DRAIN_TIMEOUT and drain_timeout. Flags override variables, and variables override
the file. For a list (...), repeat the flag or separate the values with commas.
`)
	group := ""
	for _, f := range config.Flags() {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		name := "--" + f.Name
		if f.Metavar != "" {
			name += " " + f.Metavar
		}
		if f.Many {
			name += " ..."
		}
		fmt.Fprintf(&b, "  %s\n      %s", name, f.Help)
		if f.Default != "" {
			fmt.Fprintf(&b, " (%s)", f.Default)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
