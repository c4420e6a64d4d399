package cli

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"shardway/config"
)

// checkHelp writes the help of check with all flags.
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
	var text strings.Builder
	text.WriteString(intro)
	text.WriteString(`
Each flag is also an environment variable and a key of the YAML file: --drain-timeout is
SHARDWAY_DRAIN_TIMEOUT and drain_timeout. Flags override variables, and variables override
the file. For a list (...), repeat the flag or separate the values with commas.
`)
	group := ""
	for _, flag := range config.Flags() {
		if flag.Group != group {
			group = flag.Group
			fmt.Fprintf(&text, "\n%s\n", group)
		}
		name := "--" + flag.Name
		if flag.Metavar != "" {
			name += " " + flag.Metavar
		}
		if flag.IsList {
			name += " ..."
		}
		fmt.Fprintf(&text, "  %s\n      %s", name, flag.Help)
		if flag.Default != "" {
			fmt.Fprintf(&text, " (%s)", flag.Default)
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// durations is the parser of flags of type time.Duration.
func durations() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		duration, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration: give a value such as 30s or 5m", text)
		}
		target.SetInt(int64(duration))
		return nil
	}))
}

// negativeFlag matches the error for a negative number, which the parser mistakes for a flag.
var negativeFlag = regexp.MustCompile(`^unknown flag (-[0-9])`)

// describeUsageError returns the message for a command line that cannot be parsed, with the next step.
func describeUsageError(args []string, err error) string {
	text, help := err.Error(), "shardway --help lists the commands"
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context != nil {
		if command := failed.Context.Selected(); command != nil {
			help = "shardway " + command.Path() + " --help shows what it takes"
		}
	}
	if match := negativeFlag.FindStringSubmatch(text); match != nil {
		text = findArgument(args, match[1]) + " is negative: give a number of 0 or more"
	}
	return text + "; " + help
}

// findArgument returns the first argument with the prefix, or the prefix if there is none.
func findArgument(args []string, prefix string) string {
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) }); i >= 0 {
		return args[i]
	}
	return prefix
}
