package config

import (
	"errors"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Problem is one mistake in the settings.
type Problem struct {
	Key    string `json:"key"`             // as written in the place it came from; empty: no single key is at fault
	Value  string `json:"value,omitempty"` // empty: there is none to show
	From   string `json:"from,omitempty"`  // "flag", "environment", "shardway.yaml:12", "default"
	Wrong  string `json:"wrong"`
	Remedy string `json:"remedy"`
}

// String is one line that names key, value, origin, mistake and remedy.
func (p Problem) String() string {
	var b strings.Builder
	if p.Key == "" {
		b.WriteString(p.From)
		p.From = ""
	}
	b.WriteString(p.Key)
	if p.Value != "" {
		b.WriteString(" = " + strconv.Quote(p.Value))
	}
	if p.From != "" {
		b.WriteString(" (" + p.From + ")")
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Wrong)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Error is every mistake that was found, at least one.
type Error struct {
	Problems []Problem
}

// Error is one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = "config: " + p.String()
	}
	return strings.Join(lines, "\n")
}

// failure is the error for the problems, nil if there are none.
func failure(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{problems}
}

// flaw is what is wrong with one value, without whose value it is.
type flaw struct {
	wrong  string
	remedy string
}

// flawOf is what a parser says of a value, nil if nothing.
func flawOf(err error) *flaw {
	if err == nil {
		return nil
	}
	if m := (*valueerr.Error)(nil); errors.As(err, &m) {
		return &flaw{m.Wrong, m.Remedy}
	}
	return &flaw{err.Error(), "correct it"}
}
