package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/internal/timingrules"
)

// value is a parser and formatter for a field of a Config.
type value interface {
	// set parses the value. texts has one element unless the setting is a list.
	set(texts []string) *flaw
	// check checks the current value.
	check() *flaw
	// String returns the value in the syntax of set.
	String() string
}

// textValue is a string with a check function.
type textValue struct {
	p     *string
	judge func(string) *flaw // not asked about the empty string; nil: anything goes
}

func (v textValue) set(texts []string) *flaw {
	*v.p = texts[0]
	return nil
}

func (v textValue) check() *flaw {
	if *v.p == "" || v.judge == nil {
		return nil
	}
	return v.judge(*v.p)
}

func (v textValue) String() string { return *v.p }

// choiceValue is one of several words.
type choiceValue[T ~string] struct {
	p  *T
	of []T
}

func (v choiceValue[T]) set(texts []string) *flaw {
	*v.p = T(texts[0])
	return nil
}

func (v choiceValue[T]) check() *flaw {
	if slices.Contains(v.of, *v.p) {
		return nil
	}
	words := make([]string, len(v.of))
	for i, w := range v.of {
		words[i] = string(w)
	}
	return &flaw{"unknown value", "choose one of " + strings.Join(words, ", ")}
}

func (v choiceValue[T]) String() string { return string(*v.p) }

// numberValue is an integer within bounds.
type numberValue struct {
	p      *int
	lo, hi int
	zero   string // a word that stands for zero, which is allowed then; empty: none
}

func (v numberValue) set(texts []string) *flaw {
	if v.zero != "" && texts[0] == v.zero {
		*v.p = 0
		return nil
	}
	n, err := strconv.Atoi(texts[0])
	if err != nil {
		return &flaw{"not a whole number", v.bounds()}
	}
	*v.p = n
	return nil
}

func (v numberValue) check() *flaw {
	if v.zero != "" && *v.p == 0 {
		return nil
	}
	if *v.p < v.lo || *v.p > v.hi {
		return &flaw{"out of bounds", v.bounds()}
	}
	return nil
}

func (v numberValue) bounds() string {
	remedy := fmt.Sprintf("give a number from %d to %d", v.lo, v.hi)
	if v.zero != "" {
		remedy += ", or " + v.zero
	}
	return remedy
}

func (v numberValue) String() string {
	if v.zero != "" && *v.p == 0 {
		return v.zero
	}
	return strconv.Itoa(*v.p)
}

// durationValue is a duration within bounds.
type durationValue struct {
	p      *time.Duration
	lo, hi time.Duration
	off    bool // the word "off" stands for zero, and zero is allowed
}

func (v durationValue) set(texts []string) *flaw {
	if v.off && texts[0] == "off" {
		*v.p = 0
		return nil
	}
	d, err := time.ParseDuration(texts[0])
	if err != nil {
		remedy := "write it like 500ms, 2.5s or 1m"
		if _, bare := strconv.ParseFloat(texts[0], 64); bare == nil {
			remedy = "name the unit: " + texts[0] + "s or " + texts[0] + "ms"
		}
		return &flaw{"not a duration", remedy}
	}
	*v.p = d
	return nil
}

func (v durationValue) check() *flaw {
	if v.off && *v.p == 0 {
		return nil
	}
	if *v.p < v.lo || *v.p > v.hi {
		remedy := "give a duration from " + short(v.lo) + " to " + short(v.hi)
		if v.off {
			remedy += ", or off"
		}
		return &flaw{"out of bounds", remedy}
	}
	return nil
}

func (v durationValue) String() string {
	if v.off && *v.p == 0 {
		return "off"
	}
	return short(*v.p)
}

// short formats a duration without trailing zero units.
func short(d time.Duration) string { return timingrules.Short(d) }

// sizeValue is a number of bytes within bounds.
type sizeValue struct {
	p      *int64
	lo, hi int64
	off    bool // the word "off" stands for zero, and zero is allowed
}

// unit is a suffix of a size. Units are powers of two only, because "MB" is ambiguous.
type unit struct {
	name  string
	bytes int64
}

func units() []unit {
	return []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

func (v sizeValue) set(texts []string) *flaw {
	if v.off && texts[0] == "off" {
		*v.p = 0
		return nil
	}
	digits, factor := texts[0], int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(digits, u.name); ok {
			digits, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		remedy := "write it like 64KiB, 64MiB or 1GiB"
		if v.off {
			remedy += ", or off"
		}
		return &flaw{"not a size", remedy}
	}
	*v.p = n * factor
	return nil
}

func (v sizeValue) check() *flaw {
	if v.off && *v.p == 0 {
		return nil
	}
	if *v.p < v.lo || *v.p > v.hi {
		remedy := "give a size from " + bytes(v.lo) + " to " + bytes(v.hi)
		if v.off {
			remedy += ", or off"
		}
		return &flaw{"out of bounds", remedy}
	}
	return nil
}

func (v sizeValue) String() string {
	if v.off && *v.p == 0 {
		return "off"
	}
	return bytes(*v.p)
}

// bytes formats n in the largest unit without a remainder.
func bytes(n int64) string {
	for _, u := range units() {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// boolValue is a Boolean value.
type boolValue struct{ p *bool }

func (v boolValue) set(texts []string) *flaw {
	b, err := strconv.ParseBool(texts[0])
	if err != nil {
		return &flaw{"neither true nor false", "write true or false"}
	}
	*v.p = b
	return nil
}

func (v boolValue) check() *flaw   { return nil }
func (v boolValue) String() string { return strconv.FormatBool(*v.p) }

// list is any number of texts, each with the same grammar.
type list struct {
	p     *[]string
	judge func(string) *flaw
}

func (v list) set(texts []string) *flaw {
	*v.p = slices.Clone(texts)
	return nil
}

func (v list) check() *flaw {
	for _, s := range *v.p {
		if f := v.judge(s); f != nil {
			return &flaw{strconv.Quote(s) + ": " + f.wrong, f.remedy}
		}
	}
	return nil
}

func (v list) String() string { return strings.Join(*v.p, ",") }

// prefixes is a list of networks; an address alone is a network of one.
type prefixes struct{ p *[]netip.Prefix }

func (v prefixes) set(texts []string) *flaw {
	var out []netip.Prefix
	for _, s := range texts {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return &flaw{strconv.Quote(s) + " is not a network", "write it like 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"}
		}
		out = append(out, p.Masked())
	}
	*v.p = out
	return nil
}

func (v prefixes) check() *flaw { return nil }

func (v prefixes) String() string {
	words := make([]string, len(*v.p))
	for i, p := range *v.p {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

// endpoints is a list of name=address.
type endpoints struct{ p *[]Endpoint }

func (v endpoints) set(texts []string) *flaw {
	var out []Endpoint
	for _, s := range texts {
		name, addr, ok := strings.Cut(s, "=")
		if !ok {
			return &flaw{strconv.Quote(s) + " is not an endpoint", "write it like grpc=10.0.0.5:9000"}
		}
		out = append(out, Endpoint{Name: name, Address: addr})
	}
	*v.p = out
	return nil
}

func (v endpoints) check() *flaw {
	seen := make(map[string]bool)
	for _, e := range *v.p {
		if f := checkEndpoint(e); f != nil {
			return &flaw{strconv.Quote(e.Name) + ": " + f.wrong, f.remedy}
		}
		if seen[e.Name] {
			return &flaw{strconv.Quote(e.Name) + " is there twice", "give each endpoint a name of its own"}
		}
		seen[e.Name] = true
	}
	return nil
}

func (v endpoints) String() string {
	words := make([]string, len(*v.p))
	for i, e := range *v.p {
		words[i] = e.Name + "=" + e.Address
	}
	return strings.Join(words, ",")
}
