package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/internal/problem"
)

// params are the query parameters of a request, each at most once.
type params url.Values

// query parses the query parameters of r and rejects unknown names, so that a misspelt parameter
// is not ignored.
func query(r *http.Request, allowed ...string) (params, error) {
	parsed, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.Newf(problem.BadRequest, "the query is malformed (%v): percent-encode it", err)
	}
	for name, values := range parsed {
		if !slices.Contains(allowed, name) {
			return nil, badParam(name, values[0], "is not known here: "+allowedNames(allowed))
		}
		if len(values) > 1 {
			return nil, badParam(name, strings.Join(values, ","), "is there more than once: give it once")
		}
	}
	return params(parsed), nil
}

func (p params) has(name string) bool { _, ok := p[name]; return ok }

func (p params) get(name string) string { return url.Values(p).Get(name) }

// number returns a non-negative integer, or 0 if the parameter is absent.
func (p params) number(name string) (uint64, error) {
	if !p.has(name) {
		return 0, nil
	}
	number, err := strconv.ParseUint(p.get(name), 10, 64)
	if err != nil {
		return 0, badParam(name, p.get(name), "is not a whole number: give a value such as 17")
	}
	return number, nil
}

// waitTime returns the duration in the parameter wait, or fallback if it is absent.
func (p params) waitTime(fallback time.Duration) (time.Duration, error) {
	if !p.has("wait") {
		return fallback, nil
	}
	duration, err := time.ParseDuration(p.get("wait"))
	if err != nil || duration < 0 {
		return 0, badParam("wait", p.get("wait"), "is not a duration: give a value such as 30s")
	}
	return duration, nil
}

// boolean returns a Boolean value, or false if the parameter is absent.
func (p params) boolean(name string) (bool, error) {
	if !p.has(name) {
		return false, nil
	}
	b, err := strconv.ParseBool(p.get(name))
	if err != nil {
		return false, badParam(name, p.get(name), "is neither true nor false: give one of them")
	}
	return b, nil
}

// badParam returns the error for an invalid parameter, with its name, its value and the remedy.
func badParam(name, value, fault string) *problem.Problem {
	return &problem.Problem{
		Code: problem.BadRequest, Detail: fmt.Sprintf("%s = %q %s", name, value, fault), Param: name, Value: value,
	}
}

// missing returns the error for an absent parameter.
func missing(name, remedy string) *problem.Problem {
	return &problem.Problem{Code: problem.BadRequest, Detail: name + " is missing: " + remedy, Param: name}
}

// conflicting returns the error for two parameters that exclude each other.
func conflicting(name, value, other string) *problem.Problem {
	return badParam(name, value, "is given beside "+other+": leave out one of the two")
}

// allowedNames lists the allowed parameters for an error message.
func allowedNames(names []string) string {
	if len(names) == 0 {
		return "this takes no parameters"
	}
	return "use " + strings.Join(names, ", ")
}
