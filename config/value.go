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

// settingValue parses, checks and formats a field of a Config.
type settingValue interface {
	// set parses the value. texts has one element unless the setting is a list.
	set(texts []string) *valueProblem
	// check checks the current value.
	check() *valueProblem
	// String returns the value in the syntax of set.
	String() string
}

// textValue is a string with a check function.
type textValue struct {
	field    *string
	validate func(string) *valueProblem // checks a non-empty text; nil means that every text is valid
}

func (v textValue) set(texts []string) *valueProblem {
	*v.field = texts[0]
	return nil
}

func (v textValue) check() *valueProblem {
	if *v.field == "" || v.validate == nil {
		return nil
	}
	return v.validate(*v.field)
}

func (v textValue) String() string { return *v.field }

// choiceValue is one of several words.
type choiceValue[T ~string] struct {
	field   *T
	choices []T
}

func (v choiceValue[T]) set(texts []string) *valueProblem {
	*v.field = T(texts[0])
	return nil
}

func (v choiceValue[T]) check() *valueProblem {
	if slices.Contains(v.choices, *v.field) {
		return nil
	}
	words := make([]string, len(v.choices))
	for i, w := range v.choices {
		words[i] = string(w)
	}
	return &valueProblem{"unknown value", "choose one of " + strings.Join(words, ", ")}
}

func (v choiceValue[T]) String() string { return string(*v.field) }

// numberValue is an integer within bounds.
type numberValue struct {
	field    *int
	min, max int
	zeroWord string // word for zero, which is then allowed; empty means no such word
}

func (v numberValue) set(texts []string) *valueProblem {
	if v.zeroWord != "" && texts[0] == v.zeroWord {
		*v.field = 0
		return nil
	}
	number, err := strconv.Atoi(texts[0])
	if err != nil {
		return &valueProblem{"not a whole number", v.boundsRemedy()}
	}
	*v.field = number
	return nil
}

func (v numberValue) check() *valueProblem {
	if v.zeroWord != "" && *v.field == 0 {
		return nil
	}
	if *v.field < v.min || *v.field > v.max {
		return &valueProblem{"out of bounds", v.boundsRemedy()}
	}
	return nil
}

func (v numberValue) boundsRemedy() string {
	remedy := fmt.Sprintf("give a number from %d to %d", v.min, v.max)
	if v.zeroWord != "" {
		remedy += ", or " + v.zeroWord
	}
	return remedy
}

func (v numberValue) String() string {
	if v.zeroWord != "" && *v.field == 0 {
		return v.zeroWord
	}
	return strconv.Itoa(*v.field)
}

// durationValue is a duration within bounds.
type durationValue struct {
	field     *time.Duration
	min, max  time.Duration
	allowsOff bool // the word "off" stands for zero, and zero is allowed
}

func (v durationValue) set(texts []string) *valueProblem {
	if v.allowsOff && texts[0] == "off" {
		*v.field = 0
		return nil
	}
	parsed, err := time.ParseDuration(texts[0])
	if err != nil {
		remedy := "write it like 500ms, 2.5s or 1m"
		if _, bare := strconv.ParseFloat(texts[0], 64); bare == nil {
			remedy = "name the unit: " + texts[0] + "s or " + texts[0] + "ms"
		}
		return &valueProblem{"not a duration", remedy}
	}
	*v.field = parsed
	return nil
}

func (v durationValue) check() *valueProblem {
	if v.allowsOff && *v.field == 0 {
		return nil
	}
	if *v.field < v.min || *v.field > v.max {
		remedy := "give a duration from " + formatDuration(v.min) + " to " + formatDuration(v.max)
		if v.allowsOff {
			remedy += ", or off"
		}
		return &valueProblem{"out of bounds", remedy}
	}
	return nil
}

func (v durationValue) String() string {
	if v.allowsOff && *v.field == 0 {
		return "off"
	}
	return formatDuration(*v.field)
}

// formatDuration formats a duration without trailing zero units.
func formatDuration(duration time.Duration) string { return timingrules.Short(duration) }

// sizeValue is a number of bytes within bounds.
type sizeValue struct {
	field     *int64
	min, max  int64
	allowsOff bool // the word "off" stands for zero, and zero is allowed
}

// sizeUnit is a suffix of a size. Units are powers of two only, because "MB" is ambiguous.
type sizeUnit struct {
	name string
	size int64
}

func sizeUnits() []sizeUnit {
	return []sizeUnit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

func (v sizeValue) set(texts []string) *valueProblem {
	if v.allowsOff && texts[0] == "off" {
		*v.field = 0
		return nil
	}
	digits, factor := texts[0], int64(1)
	for _, unit := range sizeUnits() {
		if rest, ok := strings.CutSuffix(digits, unit.name); ok {
			digits, factor = strings.TrimSpace(rest), unit.size
			break
		}
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 0 || number > (1<<62)/factor {
		remedy := "write it like 64KiB, 64MiB or 1GiB"
		if v.allowsOff {
			remedy += ", or off"
		}
		return &valueProblem{"not a size", remedy}
	}
	*v.field = number * factor
	return nil
}

func (v sizeValue) check() *valueProblem {
	if v.allowsOff && *v.field == 0 {
		return nil
	}
	if *v.field < v.min || *v.field > v.max {
		remedy := "give a size from " + formatSize(v.min) + " to " + formatSize(v.max)
		if v.allowsOff {
			remedy += ", or off"
		}
		return &valueProblem{"out of bounds", remedy}
	}
	return nil
}

func (v sizeValue) String() string {
	if v.allowsOff && *v.field == 0 {
		return "off"
	}
	return formatSize(*v.field)
}

// formatSize formats a number of bytes in the largest unit without a remainder.
func formatSize(remaining int64) string {
	for _, unit := range sizeUnits() {
		if remaining >= unit.size && remaining%unit.size == 0 {
			return strconv.FormatInt(remaining/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(remaining, 10) + "B"
}

// boolValue is a Boolean value.
type boolValue struct{ field *bool }

func (v boolValue) set(texts []string) *valueProblem {
	b, err := strconv.ParseBool(texts[0])
	if err != nil {
		return &valueProblem{"neither true nor false", "write true or false"}
	}
	*v.field = b
	return nil
}

func (v boolValue) check() *valueProblem { return nil }
func (v boolValue) String() string       { return strconv.FormatBool(*v.field) }

// textListValue is any number of texts.
type textListValue struct {
	field    *[]string
	validate func([]string) *valueProblem // checks all texts together
}

func (v textListValue) set(texts []string) *valueProblem {
	*v.field = slices.Clone(texts)
	return nil
}

func (v textListValue) check() *valueProblem { return v.validate(*v.field) }
func (v textListValue) String() string       { return strings.Join(*v.field, ",") }

// eachText returns a check of texts that have the same grammar. validate checks one of them.
func eachText(validate func(string) *valueProblem) func([]string) *valueProblem {
	return func(texts []string) *valueProblem {
		for _, text := range texts {
			if problem := validate(text); problem != nil {
				return &valueProblem{strconv.Quote(text) + ": " + problem.message, problem.remedy}
			}
		}
		return nil
	}
}

// networkListValue is a list of networks. A single address is a network with one address.
type networkListValue struct{ field *[]netip.Prefix }

func (v networkListValue) set(texts []string) *valueProblem {
	var networks []netip.Prefix
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			networks = append(networks, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return &valueProblem{strconv.Quote(text) + " is not a network", "write it like 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"}
		}
		networks = append(networks, network.Masked())
	}
	*v.field = networks
	return nil
}

func (v networkListValue) check() *valueProblem { return nil }

func (v networkListValue) String() string {
	words := make([]string, len(*v.field))
	for i, network := range *v.field {
		words[i] = network.String()
	}
	return strings.Join(words, ",")
}

// endpointListValue is a list of name=address.
type endpointListValue struct{ field *[]Endpoint }

func (v endpointListValue) set(texts []string) *valueProblem {
	var endpoints []Endpoint
	for _, text := range texts {
		name, addr, ok := strings.Cut(text, "=")
		if !ok {
			return &valueProblem{strconv.Quote(text) + " is not an endpoint", "write it like grpc=10.0.0.5:9000"}
		}
		endpoints = append(endpoints, Endpoint{Name: name, Address: addr})
	}
	*v.field = endpoints
	return nil
}

func (v endpointListValue) check() *valueProblem {
	names := make(map[string]bool)
	for _, endpoint := range *v.field {
		if problem := checkEndpoint(endpoint); problem != nil {
			return &valueProblem{strconv.Quote(endpoint.Name) + ": " + problem.message, problem.remedy}
		}
		if names[endpoint.Name] {
			return &valueProblem{strconv.Quote(endpoint.Name) + " is there twice", "give each endpoint a name of its own"}
		}
		names[endpoint.Name] = true
	}
	return nil
}

func (v endpointListValue) String() string {
	words := make([]string, len(*v.field))
	for i, endpoint := range *v.field {
		words[i] = endpoint.Name + "=" + endpoint.Address
	}
	return strings.Join(words, ",")
}
