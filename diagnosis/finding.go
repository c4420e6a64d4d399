package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is the severity of a finding.
type Severity uint8

// The severities. During an Outage, some requests are not served. A Warning will become an outage,
// or the next fault will. An Info is a state that an operator requested.
const (
	Info Severity = iota + 1
	Warning
	Outage
)

// String returns the severity as in JSON.
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Outage:
		return "outage"
	}
	return fmt.Sprintf("Severity(%d)", uint8(s))
}

// MarshalText returns the same text as String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a severity. An unknown severity comes from a newer node and counts as a
// warning.
func (s *Severity) UnmarshalText(b []byte) error {
	*s = Warning
	for _, known := range []Severity{Info, Outage} {
		if string(b) == known.String() {
			*s = known
		}
	}
	return nil
}

// Finding is one problem or notable state.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Text is one sentence that names nodes and numbers, without a full stop.
	Text string `json:"text"`
	// Remedy is the command or the setting that fixes it.
	Remedy string `json:"remedy"`
	// Brief is Text without addresses and errors of sockets and apps, for readers without access to
	// the admin port. It is empty if Text contains none of these.
	Brief string `json:"-"`
	// Subject distinguishes findings with the same code. It is empty if there is at most one.
	Subject string `json:"-"`
}

// String returns the code, the sentence and the remedy.
func (f Finding) String() string {
	if f.Remedy == "" {
		return string(f.Code) + ": " + f.Text
	}
	return string(f.Code) + ": " + f.Text + "; " + f.Remedy
}

// Public returns the code and the sentence for readers without access to the admin port.
func (f Finding) Public() string { return string(f.Code) + ": " + cmp.Or(f.Brief, f.Text) }

// Same reports whether two findings have the same code and subject. Numbers in them may differ.
func (f Finding) Same(other Finding) bool { return f.Code == other.Code && f.Subject == other.Subject }

// Worst returns the highest severity, or zero without findings.
func Worst(findings []Finding) (worst Severity) {
	for _, finding := range findings {
		worst = max(worst, finding.Severity)
	}
	return worst
}

// Changes returns the findings that are only in after, and those that are only in before.
func Changes(before, after []Finding) (added, removed []Finding) {
	missing := func(from, others []Finding) (only []Finding) {
		for _, finding := range from {
			if !slices.ContainsFunc(others, finding.Same) {
				only = append(only, finding)
			}
		}
		return only
	}
	return missing(after, before), missing(before, after)
}
