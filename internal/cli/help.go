package cli

import (
	"fmt"
	"io"
	"strings"

	"shardway/config"
)

func checkHelp(w io.Writer) error {
	return settingsHelp(w, `Usage: shardway check [flags]

Reports every mistake in the configuration of a node, shows what was chosen and where
(with --all the defaults, too), and explains how the timings hang together.
It takes the flags of run, --all, --json, and --against ADDR, the admin address of a running
node: then it compares the settings that must be the same on all nodes with those of the
cluster, and exits with 1 if any differs. It starts nothing.
`)
}

// settingsHelp writes an introduction and every flag of run. All of it comes
// from config's table.
func settingsHelp(w io.Writer, intro string) error {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString(`
A flag is also a variable and a key of the YAML file: --drain-timeout is
SHARDWAY_DRAIN_TIMEOUT and drain_timeout. Flags beat variables, variables beat the
file. A list (...) is given by repeating the flag, or with commas.
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
