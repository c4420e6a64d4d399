package config

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/address"
	"shardway/internal/fieldname"
	"shardway/internal/headerrules"
)

// HealthCheck describes the request of a health check, and the response of a healthy app.
type HealthCheck struct {
	Path    string // with a query, if any; empty means that the check only opens a connection
	Method  string
	Host    string // value of the Host header; empty means the address of the app instance
	Headers []headerrules.Field
	Status  []StatusRange // accepted status codes
	Body    string        // text that the body of the response must contain; empty means any body
}

// StatusRange is a range of status codes, including both ends.
type StatusRange struct{ First, Last int }

// HealthCheck returns the health check of the app. The settings must have passed the checks of Validate.
func (c *Config) HealthCheck() HealthCheck {
	check := HealthCheck{Path: c.Health, Method: c.HealthMethod, Host: c.HealthHost, Body: c.HealthBody}
	for _, text := range c.HealthHeaders {
		check.Headers = append(check.Headers, parseHealthHeader(text))
	}
	for _, text := range c.HealthStatus {
		accepted, _ := parseStatusRange(text)
		check.Status = append(check.Status, accepted)
	}
	return check
}

// AcceptsStatus reports whether a healthy app responds with this status.
func (h *HealthCheck) AcceptsStatus(status int) bool {
	return slices.ContainsFunc(h.Status, func(accepted StatusRange) bool { return accepted.First <= status && status <= accepted.Last })
}

// String returns the range in the form of the setting.
func (r StatusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
}

// Bounds of the status of a final response. Interim responses (1xx) are skipped.
const (
	minStatus = 200
	maxStatus = 599
)

// statusForm is the remedy for a text that is not a range of status codes.
const statusForm = "write codes from 200 to 599, like 200, 200-399 or 2xx"

// parseStatusRange parses a status code, a range such as 200-399, or a class such as 2xx.
func parseStatusRange(text string) (StatusRange, *valueProblem) {
	first, last, isRange := strings.Cut(text, "-")
	if class, isClass := strings.CutSuffix(text, "xx"); isClass {
		first, last, isRange = class+"00", class+"99", true
	}
	if !isRange {
		last = first
	}
	firstStatus, ok := parseStatus(first)
	lastStatus, lastOK := parseStatus(last)
	switch {
	case !ok || !lastOK:
		return StatusRange{}, &valueProblem{"not a status code or a range of them", statusForm}
	case firstStatus > lastStatus:
		return StatusRange{}, &valueProblem{"the range ends before it begins", "write " + last + "-" + first}
	}
	return StatusRange{First: firstStatus, Last: lastStatus}, nil
}

// parseStatus parses the status code of a final response.
func parseStatus(text string) (status int, ok bool) {
	status, err := strconv.Atoi(text)
	return status, err == nil && len(text) == 3 && status >= minStatus && status <= maxStatus
}

// checkStatusRange checks a status code or a range of them.
func checkStatusRange(text string) *valueProblem {
	_, problem := parseStatusRange(text)
	return problem
}

// checkHealthMethod checks the method of a health check. Methods are case-sensitive.
func checkHealthMethod(method string) *valueProblem {
	switch upper := strings.ToUpper(method); {
	case !fieldname.IsToken(method):
		return &valueProblem{"not a method (RFC 9110, section 9)", "use GET, HEAD, POST or OPTIONS"}
	case method != upper:
		return &valueProblem{"methods are case-sensitive", "write " + upper}
	case method == "CONNECT":
		return &valueProblem{"it requests a tunnel", "use GET, HEAD, POST or OPTIONS"}
	}
	return nil
}

// checkHealthHost checks the Host header of a health check: a host, with or without a port.
func checkHealthHost(text string) *valueProblem {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port, err = net.SplitHostPort(text + ":80")
	}
	number, portErr := strconv.ParseUint(port, 10, 16)
	isIPv6 := strings.Contains(host, ":")
	if err != nil || portErr != nil || number == 0 || !address.IsHost(host) || strings.Contains(host, "%") || isIPv6 != strings.HasPrefix(text, "[") {
		return &valueProblem{"not the value of a Host header", "write a name or an address, like app.example.com, app.example.com:8443 or [::1]"}
	}
	return nil
}

// parseHealthHeader splits a header field such as "Authorization: Bearer x".
func parseHealthHeader(text string) headerrules.Field {
	name, fieldValue, _ := strings.Cut(text, ":")
	return headerrules.Field{Name: name, Value: strings.Trim(fieldValue, " \t")}
}

// checkHealthHeader checks a header field of a health check. The check must remain one request without a
// body, and must not look like a request that a node forwards for a client.
func checkHealthHeader(text string) *valueProblem {
	field := parseHealthHeader(text)
	normal := fieldname.Normalize(field.Name)
	switch {
	case !strings.Contains(text, ":") || !fieldname.IsToken(field.Name):
		return &valueProblem{"not a header field", "write NAME: VALUE, like X-Forwarded-Proto: https"}
	case normal == "host":
		return &valueProblem{"the Host header has a setting of its own", "use health-host"}
	case strings.HasPrefix(normal, "shardway-"):
		return &valueProblem{"the app would take the check for a request of a client", "remove it"}
	case slices.Contains([]string{"connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}, normal):
		return &valueProblem{"HTTP itself needs the field " + field.Name, "remove it"}
	case !headerrules.IsFieldValue(field.Value):
		return &valueProblem{"not the value of a header field (RFC 9110, section 5.5)", "use visible ASCII, spaces and tabs"}
	}
	return nil
}

// maxHealthBody is the maximum length of the text that a body must contain.
const maxHealthBody = 1024

// checkHealthBody checks the text that the body of a response must contain.
func checkHealthBody(text string) *valueProblem {
	if len(text) > maxHealthBody {
		return &valueProblem{"it has " + strconv.Itoa(len(text)) + " bytes", "use at most " + strconv.Itoa(maxHealthBody)}
	}
	return nil
}

// healthRules returns the rules for the request of the health check.
func (c *Config) healthRules() []rule {
	message, remedy := "without health, the check only opens a connection", "set health, such as /healthz, or remove it"
	switch {
	case c.Exec != "":
		message, remedy = "with exec there is no single app to check", "remove it; use exec-ready to find out when a process is ready"
	case c.Embedded:
		message, remedy = "the app is in this process and has no health check", "leave it out"
	}
	var rules []rule
	for _, name := range []string{"health-method", "health-host", "health-header", "health-status", "health-body"} {
		rules = append(rules, rule{name, "health", c.Health != "" || !c.isSet(name), message, remedy})
	}
	size := 0
	for _, text := range c.HealthHeaders {
		size += len(text)
	}
	return append(rules,
		rule{"health-status", "", len(c.HealthStatus) > 0, "no status is accepted", "set at least one, such as 200"},
		rule{"health-header", "", size <= headerrules.MaxSize, "the fields have " + strconv.Itoa(size) + " bytes, more than " + strconv.Itoa(headerrules.MaxSize), "use fewer or shorter fields"},
		rule{"health-body", "health-method", c.HealthBody == "" || c.HealthMethod != "HEAD", "a response to HEAD has no body", "set health-method to GET, or remove it"},
	)
}
