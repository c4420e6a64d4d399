package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/internal/suggest"
)

// KeyLimit limits the requests of each key at the owner of its shard. The zero value limits nothing.
type KeyLimit struct {
	Interval   time.Duration // average time between two requests; zero means no limit
	Burst      int           // requests that may follow each other without a pause; set with Interval
	Concurrent int           // requests that run at the same time; zero means no limit
	BodyRate   int64         // bytes of request bodies per second; zero means no limit
}

// Bounds of the parameters of a key limit.
const (
	maxKeyRate     = 1_000_000 // requests per second, burst and concurrent requests
	maxKeyBodyRate = 1 << 40
)

// keyLimitForm is the remedy for a text that is not a key limit.
const keyLimitForm = "write parameters like rate=10/s; burst=20; concurrent=4; body-rate=1MiB"

// keyLimitNames returns the names of the parameters.
func keyLimitNames() []string { return []string{"rate", "burst", "concurrent", "body-rate"} }

// ParseKeyLimit parses a text such as "rate=10/s; burst=20; concurrent=4; body-rate=1MiB". All parameters
// are optional, but at least one is required. The word off means no limit. The text must have passed the
// checks of Validate; ParseKeyLimit returns an error otherwise.
func ParseKeyLimit(text string) (KeyLimit, error) {
	limit, problem := parseKeyLimit(text)
	if problem != nil {
		return KeyLimit{}, fmt.Errorf("config: key limit %q: %s; %s", text, problem.message, problem.remedy)
	}
	return limit, nil
}

// checkKeyLimit checks the text of a key limit.
func checkKeyLimit(text string) *valueProblem {
	_, problem := parseKeyLimit(text)
	return problem
}

// parseKeyLimit parses a key limit.
func parseKeyLimit(text string) (KeyLimit, *valueProblem) {
	var limit KeyLimit
	if text == "" || text == "off" {
		return limit, nil
	}
	parameters, problem := parseParameters(text, keyLimitNames(), keyLimitForm)
	if problem != nil {
		return limit, problem
	}
	for _, parameter := range parameters {
		if problem := limit.setParameter(parameter.name, parameter.value); problem != nil {
			return KeyLimit{}, problem
		}
	}
	if limit.Burst > 0 && limit.Interval == 0 {
		return KeyLimit{}, &valueProblem{"burst has no effect without rate", "set rate, such as rate=10/s, or remove burst"}
	}
	if limit.Interval > 0 && limit.Burst == 0 {
		limit.Burst = max(1, int(time.Second/limit.Interval))
	}
	return limit, nil
}

// setParameter sets one parameter of the limit.
func (limit *KeyLimit) setParameter(name, text string) (problem *valueProblem) {
	switch name {
	case "rate":
		limit.Interval, problem = parseRate(text)
		return problem
	case "burst":
		return numberParameter(name, &limit.Burst, text)
	case "concurrent":
		return numberParameter(name, &limit.Concurrent, text)
	}
	value := sizeValue{&limit.BodyRate, 1, maxKeyBodyRate, false}
	if problem = value.set([]string{text}); problem == nil {
		problem = value.check()
	}
	if problem != nil {
		problem.message = name + ": " + problem.message
	}
	return problem
}

// numberParameter sets a field to the number in text.
func numberParameter(name string, field *int, text string) *valueProblem {
	value := numberValue{field: field, min: 1, max: maxKeyRate}
	problem := value.set([]string{text})
	if problem == nil {
		problem = value.check()
	}
	if problem != nil {
		problem.message = name + ": " + problem.message
	}
	return problem
}

// parseRate parses a rate such as 10/s, 100/m or 1000/h, and returns the average time between two requests.
func parseRate(text string) (time.Duration, *valueProblem) {
	const remedy = "write a number of requests per second, minute or hour, like 10/s, 100/m or 1000/h"
	count, unitText, _ := strings.Cut(text, "/")
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
	unit, known := units[unitText]
	number, err := strconv.Atoi(count)
	switch {
	case !known || err != nil:
		return 0, &valueProblem{"rate: not a rate", remedy}
	case number < 1 || number > maxKeyRate:
		return 0, &valueProblem{"rate: out of bounds", "give a number from 1 to " + strconv.Itoa(maxKeyRate) + " before the /"}
	}
	return unit / time.Duration(number), nil
}

// parameter is one NAME=VALUE of a setting with parameters.
type parameter struct{ name, value string }

// parseParameters parses a text such as "name=value; name=value". Each name must be one of names, and
// appear once. form is the remedy for another text.
func parseParameters(text string, names []string, form string) ([]parameter, *valueProblem) {
	var parameters []parameter
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(text, ";") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(part), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !hasValue || value == "":
			return nil, &valueProblem{strconv.Quote(strings.TrimSpace(part)) + " is not a parameter with a value", form}
		case seen[name]:
			return nil, &valueProblem{name + " is there twice", "keep one of them"}
		case !slices.Contains(names, name):
			remedy := "use " + strings.Join(names, ", ")
			if near := suggest.Word(name, names); near != "" {
				remedy = "did you mean " + near + "?"
			}
			return nil, &valueProblem{"unknown parameter " + strconv.Quote(name), remedy}
		}
		seen[name] = true
		parameters = append(parameters, parameter{name, value})
	}
	return parameters, nil
}
