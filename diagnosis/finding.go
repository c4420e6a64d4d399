package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says how grave a finding is.
type Severity uint8

// The severities. With an outage, requests are not served that ought to be; a warning
// will become one, or makes the next fault one; an info is as somebody wanted it.
const (
	Info Severity = iota + 1
	Warning
	Outage
)

// String returns the severity as JSON has it.
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

// MarshalText writes the severity as String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the reverse. What it does not know, a newer node says: it counts as a
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

// Finding is one thing that is the matter.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Text is one sentence that names nodes and numbers, without a full stop.
	Text string `json:"text"`
	// Remedy is the command or the setting that mends it.
	Remedy string `json:"remedy"`
	// Brief is Text without addresses and without what sockets and apps said, for those
	// who may not read the admin port; empty: Text has none of that.
	Brief string `json:"-"`
	// Subject tells findings of one code apart; empty: there is one at most.
	Subject string `json:"-"`
}

// String returns the code, the sentence and the remedy.
func (f Finding) String() string {
	if f.Remedy == "" {
		return string(f.Code) + ": " + f.Text
	}
	return string(f.Code) + ": " + f.Text + "; " + f.Remedy
}

// Public returns the code and the sentence for everybody.
func (f Finding) Public() string { return string(f.Code) + ": " + cmp.Or(f.Brief, f.Text) }

// Same reports whether two findings are about the same, whatever the numbers in them.
func (f Finding) Same(o Finding) bool { return f.Code == o.Code && f.Subject == o.Subject }

// Worst returns the gravest severity of all, zero without findings.
func Worst(all []Finding) (worst Severity) {
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Changes returns what is in now and not in before, and the reverse.
func Changes(before, now []Finding) (came, went []Finding) {
	missing := func(from, in []Finding) (out []Finding) {
		for _, f := range from {
			if !slices.ContainsFunc(in, f.Same) {
				out = append(out, f)
			}
		}
		return out
	}
	return missing(now, before), missing(before, now)
}
