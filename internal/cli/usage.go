package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// durations is the parser of flags of type time.Duration.
func durations() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration: give one such as 30s or 5m", text)
		}
		target.SetInt(int64(d))
		return nil
	}))
}

// negativeFlag matches the error for a negative number, which the parser mistakes for a flag.
var negativeFlag = regexp.MustCompile(`^unknown flag (-[0-9])`)

// usageError returns the message for a command line that cannot be parsed, with the next step.
func usageError(args []string, err error) string {
	text, help := err.Error(), "shardway --help lists the commands"
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context != nil {
		if command := failed.Context.Selected(); command != nil {
			help = "shardway " + command.Path() + " --help shows what it takes"
		}
	}
	if m := negativeFlag.FindStringSubmatch(text); m != nil {
		text = findArgument(args, m[1]) + " is negative: give a number of 0 or more"
	}
	return text + "; " + help
}

// findArgument returns the argument with the prefix begin, or begin if there is none.
func findArgument(args []string, begin string) string {
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, begin) }); i >= 0 {
		return args[i]
	}
	return begin
}
