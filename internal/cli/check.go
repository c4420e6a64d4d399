package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"shardway/config"
	"shardway/node/process"
)

type checkCommand struct {
	Args []string `arg:"" help:"Flags of run, --all, --json and --against." optional:""`
}

// checkReport is the JSON output of a check.
type checkReport struct {
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
	Advice   []config.Problem `json:"advice"` // valid settings that are probably mistakes
	// Differences contains the settings that differ from the cluster of --against. nil without
	// --against.
	Differences []difference   `json:"differences,omitempty"`
	Values      []config.Value `json:"values"`
	config.Explanation

	all     bool   // the text output contains defaults
	against string // value of --against; empty means no comparison
}

// Run checks the configuration and prints a report. The error determines only the exit code.
func (c *checkCommand) Run(ctx context.Context, session *session) error {
	args, against, err := cutAgainstFlag(c.Args)
	if err != nil {
		return err
	}
	args, asJSON := cutSwitch(args, "--json")
	args, all := cutSwitch(args, "--all")
	cfg, err := config.Load(args, session.environ, os.ReadFile)
	if errors.Is(err, config.ErrHelp) {
		return checkHelp(session.out)
	}
	report := checkReport{
		Problems:    []config.Problem{},
		Advice:      append([]config.Problem{}, cfg.Advice()...),
		Values:      cfg.Values(),
		Explanation: cfg.Explain(),
		all:         all,
		against:     against,
	}
	if invalid, ok := errors.AsType[*config.Error](err); ok {
		report.Problems = invalid.Problems
	} else if err != nil {
		return err
	}
	if limit := fileLimit(); limit > 0 {
		report.Bounds = append(report.Bounds, cfg.DescriptorBound(limit))
	}
	report.Problems = checkFiles(&cfg, report.Problems)
	report.OK = len(report.Problems) == 0
	if against != "" && report.OK {
		if report.Differences, err = compareWithCluster(ctx, session, &cfg, against); err != nil {
			return err
		}
	}
	write := report.write
	if asJSON {
		write = func(w io.Writer) error { return writeJSON(w, report) }
	}
	err = write(session.out)
	switch {
	case err != nil:
		return err
	case !report.OK:
		return errReported
	case len(report.Differences) > 0:
		return errConfigDiffers
	}
	return nil
}

// cutSwitch removes a switch from args. found reports whether args contained it.
func cutSwitch(args []string, name string) (rest []string, found bool) {
	rest = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == name })
	return rest, len(rest) < len(args)
}

// checkFiles checks the secret, token and certificate files of the settings. It adds a problem for each
// invalid file whose setting has no problem yet.
func checkFiles(cfg *config.Config, problems []config.Problem) []config.Problem {
	for _, fileErr := range process.CheckFiles(cfg) {
		problem := config.Problem{Key: fileErr.Flag, Message: fileErr.Err.Error()}
		if slices.ContainsFunc(problems, func(known config.Problem) bool { return known.Key == problem.Key }) {
			continue
		}
		for _, value := range cfg.Values() {
			if value.Key == problem.Key {
				problem.Value, problem.Origin = value.Value, value.Origin
			}
		}
		problems = append(problems, problem)
	}
	return problems
}

// write prints the report as text: problems, advice and differences, then the settings and an
// explanation of the timings. An invalid configuration prints no settings, and the explanation only if
// a timing rule is violated.
func (r *checkReport) write(w io.Writer) error {
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintln(w, problem); err != nil {
			return err
		}
	}
	for _, problem := range r.Advice {
		if _, err := fmt.Fprintln(w, "advice:", problem); err != nil {
			return err
		}
	}
	for _, difference := range r.Differences {
		if _, err := fmt.Fprintln(w, difference); err != nil {
			return err
		}
	}
	if r.OK {
		if err := writeValues(w, r.Values, r.all); err != nil {
			return err
		}
	}
	violatesRule := slices.ContainsFunc(r.Bounds, func(bound config.Bound) bool { return !bound.Holds && !bound.Advice })
	if !r.OK && !violatesRule {
		return nil
	}
	if err := writeExplanation(w, r.Explanation); err != nil {
		return err
	}
	if !r.OK || len(r.Differences) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "\n"+r.summary())
	return err
}

// summary returns the last line of a report without problems and differences.
func (r *checkReport) summary() string {
	text := "ok: the configuration is valid"
	if r.against != "" {
		text += ", and agrees with the cluster at " + r.against
	}
	if n := len(r.Advice); n > 0 {
		text += fmt.Sprintf(" (see the advice: %d)", n)
	}
	return text
}

// writeValues prints the explicit settings, then the defaults if all is true, and otherwise their
// number.
func writeValues(w io.Writer, values []config.Value, all bool) error {
	table := newTable(w, "SETTING", "VALUE", "FROM")
	for _, value := range values {
		if value.Origin != config.OriginDefault {
			table.row(value.Key, value.Value, value.Origin)
		}
	}
	defaults := 0
	for _, value := range values {
		if value.Origin != config.OriginDefault {
			continue
		}
		defaults++
		if all {
			table.row(value.Key, value.Value, value.Origin)
		}
	}
	if err := table.flush(); err != nil || all {
		return err
	}
	_, err := fmt.Fprintf(w, "%d more have their defaults: --all shows them\n", defaults)
	return err
}

// writeExplanation prints the conditions between the timings, and the figures that follow from them.
func writeExplanation(w io.Writer, explanation config.Explanation) error {
	table := newTable(w, "\nTIMING", "", "HOLDS", "WHY")
	for _, bound := range explanation.Bounds {
		table.row(bound.Rule, bound.Figures, boundState(bound), bound.Why)
	}
	if err := table.flush(); err != nil {
		return err
	}
	table = newTable(w, "\nFOLLOWS", "", "WHY")
	for _, figure := range explanation.Figures {
		table.row(figure.Name, figure.Value, figure.Why)
	}
	return table.flush()
}

// boundState returns the column HOLDS of a timing rule.
func boundState(bound config.Bound) string {
	switch {
	case bound.Holds:
		return "yes"
	case bound.Advice:
		return "no (advice)"
	}
	return "NO"
}
