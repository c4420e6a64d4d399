package config

import (
	"errors"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Problem is one error in the settings.
type Problem struct {
	Key     string `json:"key"`             // key as the operator wrote it; empty if no single key causes the problem
	Value   string `json:"value,omitempty"` // empty if the problem has no value to show
	Origin  string `json:"from,omitempty"`  // "flag", "environment", "shardway.yaml:12", "default"
	Message string `json:"wrong"`
	Remedy  string `json:"remedy"`
}

// String returns one line with the key, the value, the origin, the error and the remedy.
func (p Problem) String() string {
	var line strings.Builder
	if p.Key == "" {
		line.WriteString(p.Origin)
		p.Origin = ""
	}
	line.WriteString(p.Key)
	if p.Value != "" {
		line.WriteString(" = " + strconv.Quote(p.Value))
	}
	if p.Origin != "" {
		line.WriteString(" (" + p.Origin + ")")
	}
	if line.Len() > 0 {
		line.WriteString(": ")
	}
	line.WriteString(p.Message)
	if p.Remedy != "" {
		line.WriteString("; " + p.Remedy)
	}
	return line.String()
}

// Error contains all problems, at least one.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = "config: " + p.String()
	}
	return strings.Join(lines, "\n")
}

// newError returns the error for the problems, or nil if there are none.
func newError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{problems}
}

// valueProblem is an error in a value, without the name of the setting, which the caller adds.
type valueProblem struct {
	message string
	remedy  string
}

// problemOf converts the error of a parser, usually a *valueerr.Error. It returns nil for a nil error.
func problemOf(err error) *valueProblem {
	if err == nil {
		return nil
	}
	if valueErr := (*valueerr.Error)(nil); errors.As(err, &valueErr) {
		return &valueProblem{valueErr.Wrong, valueErr.Remedy}
	}
	return &valueProblem{err.Error(), "correct it"}
}
