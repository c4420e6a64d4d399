package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

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
func (c *checkCommand) Run(ctx context.Context, s *session) error {
	args, against, err := cutAgainstFlag(c.Args)
	if err != nil {
		return err
	}
	args, asJSON := cutSwitch(args, "--json")
	args, all := cutSwitch(args, "--all")
	cfg, err := config.Load(args, s.environ, os.ReadFile)
	if errors.Is(err, config.ErrHelp) {
		return checkHelp(s.out)
	}
	r := checkReport{Problems: []config.Problem{}, Advice: append([]config.Problem{}, cfg.Advice()...), Values: cfg.Values(), Explanation: cfg.Explain(), all: all, against: against}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		r.Problems = wrong.Problems
	} else if err != nil {
		return err
	}
	if limit := fileLimit(); limit > 0 {
		r.Bounds = append(r.Bounds, cfg.DescriptorBound(limit))
	}
	r.Problems = checkFiles(&cfg, r.Problems)
	r.OK = len(r.Problems) == 0
	if against != "" && r.OK {
		if r.Differences, err = compareWithCluster(ctx, s, &cfg, against); err != nil {
			return err
		}
	}
	write := r.write
	if asJSON {
		write = func(w io.Writer) error { return writeJSON(w, r) }
	}
	err = write(s.out)
	switch {
	case err != nil:
		return err
	case !r.OK:
		return errReported
	case len(r.Differences) > 0:
		return errDiffers
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
	for _, err := range process.Check(cfg) {
		flag, wrong, _ := strings.Cut(err.Error(), ": ")
		p := config.Problem{Key: strings.TrimPrefix(flag, "--"), Message: wrong}
		if slices.ContainsFunc(problems, func(known config.Problem) bool { return known.Key == p.Key }) {
			continue
		}
		for _, v := range cfg.Values() {
			if v.Key == p.Key {
				p.Value, p.Origin = v.Value, v.Origin
			}
		}
		problems = append(problems, p)
	}
	return problems
}

// write prints the report as text: problems, advice and differences, then the settings and an
// explanation of the timings. An invalid configuration prints no settings, and the explanation only if
// a timing rule is violated.
func (r *checkReport) write(w io.Writer) error {
	for _, p := range r.Problems {
		if _, err := fmt.Fprintln(w, p); err != nil {
			return err
		}
	}
	for _, p := range r.Advice {
		if _, err := fmt.Fprintln(w, "advice:", p); err != nil {
			return err
		}
	}
	for _, d := range r.Differences {
		if _, err := fmt.Fprintln(w, d); err != nil {
			return err
		}
	}
	if r.OK {
		if err := writeValues(w, r.Values, r.all); err != nil {
			return err
		}
	}
	violated := slices.ContainsFunc(r.Bounds, func(b config.Bound) bool { return !b.Holds && !b.Advice })
	if !r.OK && !violated {
		return nil
	}
	if err := writeExplanation(w, r.Explanation); err != nil || !r.OK || len(r.Differences) > 0 {
		return err
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
	t, defaults := newTable(w, "SETTING", "VALUE", "FROM"), 0
	for _, v := range values {
		if v.Origin != config.OriginDefault {
			t.row(v.Key, v.Value, v.Origin)
		}
	}
	for _, v := range values {
		if v.Origin != config.OriginDefault {
			continue
		}
		if defaults++; all {
			t.row(v.Key, v.Value, v.Origin)
		}
	}
	if err := t.flush(); err != nil || all {
		return err
	}
	_, err := fmt.Fprintf(w, "%d more have their defaults: --all shows them\n", defaults)
	return err
}

func writeExplanation(w io.Writer, e config.Explanation) error {
	t := newTable(w, "\nTIMING", "", "HOLDS", "WHY")
	for _, b := range e.Bounds {
		t.row(b.Rule, b.Figures, boundState(b), b.Why)
	}
	if err := t.flush(); err != nil {
		return err
	}
	t = newTable(w, "\nFOLLOWS", "", "WHY")
	for _, f := range e.Figures {
		t.row(f.Name, f.Value, f.Why)
	}
	return t.flush()
}

// boundState returns the column HOLDS of a timing rule.
func boundState(b config.Bound) string {
	switch {
	case b.Holds:
		return "yes"
	case b.Advice:
		return "no (advice)"
	}
	return "NO"
}
