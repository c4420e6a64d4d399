package config

import (
	"slices"
	"strconv"
	"strings"

	"shardway/keysource"
)

// Advice returns settings that are valid but probably do not work as intended. A node
// starts with them. Each Problem names the setting, the reason and the remedy.
func (c *Config) Advice() []Problem {
	advice := c.adviseSources()
	for i := range c.Services {
		service := &c.Services[i]
		for _, problem := range service.Settings.adviseSources() {
			problem.Key = service.key(problem.Key)
			if prefix, isPath := strings.CutPrefix(problem.Key, service.key(routesKey)); isPath {
				problem.Key, problem.Origin = service.key(pathsKey)+prefix, service.Settings.Origin(pathsKey)
			}
			advice = append(advice, problem)
		}
	}
	return append(advice, c.execAdvice()...)
}

// adviseSources returns the key sources that probably do not work as intended.
func (c *Config) adviseSources() (advice []Problem) {
	for _, line := range c.sourceLines() {
		for _, text := range line.sources {
			source, err := keysource.Parse(text)
			if err != nil {
				continue // findProblems reports the invalid source
			}
			var problems []*valueProblem
			for _, single := range source.Single() {
				problems = append(problems, adviseClaim(single), advisePattern(single, line.prefix))
			}
			switch reason := line.anyNodeReason(c.OnMissingKey); {
			case line.lastKind() == keysource.Mint: // the app uses the generated key as the value of its cookie or header
			case reason != "":
				problems = append(problems, adviseMissing(source, reason))
			default:
				problems = append(problems, adviseSession(source), adviseWrap(source, line.lastKind()))
			}
			for _, problem := range problems {
				if problem != nil {
					advice = append(advice, Problem{Key: line.key, Value: text, Origin: c.Origin(line.setting), Message: problem.message, Remedy: problem.remedy})
				}
			}
		}
	}
	return advice
}

// sourceLine is a configuration line that lists key sources: the setting "key", or one route.
type sourceLine struct {
	key     string // as in Value.Key
	setting string // the setting that the origin is kept for
	prefix  string // the path prefix of a route; empty for the setting "key"
	sources []string
}

// lastKind returns the kind of the last source, or 0 if there is none.
func (line *sourceLine) lastKind() keysource.Kind {
	if len(line.sources) == 0 {
		return 0
	}
	last, err := keysource.Parse(line.sources[len(line.sources)-1])
	if err != nil {
		return 0
	}
	return last.Kind
}

// anyNodeReason returns why any node may serve a request in which no source has a key, in the terms of the
// configuration. It returns "" if no node serves it without a key.
func (line *sourceLine) anyNodeReason(missing keysource.Missing) string {
	switch {
	case line.lastKind() == keysource.None:
		return "the last source is none"
	case missing == keysource.MissingReject:
		return ""
	}
	return "on-missing-key is " + string(missing)
}

// sourceLines returns the lines of the configuration that list key sources.
func (c *Config) sourceLines() []sourceLine {
	lines := []sourceLine{{"key", "key", "", c.Keys}}
	for _, route := range c.KeyRoutes() {
		lines = append(lines, sourceLine{routesKey + " " + route.Prefix, routesKey, route.Prefix, route.Sources})
	}
	return lines
}

// adviseMissing reports a cookie or header that the app may set itself, when requests without it may be
// routed to any node. The request that creates the session then runs on one node. The next request goes
// to the owner of the hash of the session ID, usually a different node. The default source is
// skipped, because no app sets it. reason is the result of anyNodeReason.
func adviseMissing(source keysource.Source, reason string) *valueProblem {
	if source.String() == keysource.Default {
		return nil
	}
	var remedy string
	switch source.Kind {
	case keysource.Cookie:
		remedy = "use wrap:" + source.String() + "; or remove " + source.String() + " and set on-missing-key to cookie, so that Shardway's own cookie is the key; or add mint as the last source, if the app can use Shardway-Key as the value"
	case keysource.Header:
		remedy = "use wrap:" + source.String() + "; or use a key that the client has from its first request, like path:1 or query:user; or add mint as the last source, if the app can use Shardway-Key as the value"
	case keysource.Path, keysource.Query, keysource.JWT, keysource.Host, keysource.IP, keysource.Mint, keysource.Wrap, keysource.None, keysource.JSON, keysource.Form, keysource.Joined, keysource.WSJSON, keysource.WSFirst, keysource.WSProtocol:
		return nil
	}
	return &valueProblem{
		"if the app chooses this value, it creates the session on one node (" + reason + "), and later requests go to the owner of the value, usually a different node",
		remedy + "; if only clients choose the value, set on-missing-key to reject",
	}
}

// sessionFrameworks returns the software that creates a session id, by the name of its cookie or header in
// lower case.
func sessionFrameworks() map[string]string {
	return map[string]string{
		"phpsessid": "PHP", "jsessionid": "a Java servlet container", "connect.sid": "express-session",
		"asp.net_sessionid": "ASP.NET", "mcp-session-id": "an MCP server",
	}
}

// adviseSession reports the session id of a known framework as a plain source, if requests without it are
// refused. A client has no session id before its first response, so it could never create a session.
func adviseSession(source keysource.Source) *valueProblem {
	framework, isSession := sessionFrameworks()[strings.ToLower(source.Name)]
	isPlain := source.Kind == keysource.Cookie || source.Kind == keysource.Header
	if !isSession || !isPlain {
		return nil
	}
	return &valueProblem{
		framework + " creates this value, so the first request of a client has no key and gets 400",
		"use wrap:" + source.String() + "; Shardway then adds the key to the value, and removes it before the app receives the value",
	}
}

// adviseWrap reports a wrapped session id without a source for clients whose session id has no valid suffix.
// These clients get 400 until they forget the session id. last is the kind of the last source.
func adviseWrap(source keysource.Source, last keysource.Kind) *valueProblem {
	if source.Kind != keysource.Wrap || last != keysource.Wrap {
		return nil
	}
	return &valueProblem{
		"a client with a session id from before Shardway, or from before the secret was replaced, has no key and gets 400",
		"add mint as the last source; the app then replaces a session id that it does not know",
	}
}

// structuredClaims returns the names of claims that identity providers send as arrays or objects.
func structuredClaims() []string {
	return []string{
		"aud", "amr", "roles", "groups", "permissions", "scp", "entitlements", // arrays
		"realm_access", "resource_access", "address", "act", "cnf", "events", // objects
	}
}

// advisePattern reports a pattern that matches no path below the prefix of its route.
func advisePattern(source keysource.Source, prefix string) *valueProblem {
	if source.Pattern == nil || prefix == "" || source.Pattern.MayMatchBelow(prefix) {
		return nil
	}
	return &valueProblem{
		"this pattern matches the whole path, and no such path is below " + strconv.Quote(prefix),
		"begin the pattern with " + prefix + ", or use another prefix",
	}
}

// adviseClaim reports a claim of a JWT that is unlikely to yield a usable key. Either the claim is usually
// an array or an object, or its name has a dot and was probably meant as a nested claim. A name with a slash
// or a colon is namespaced, like https://acme.com/tenant, and commonly contains dots.
func adviseClaim(source keysource.Source) *valueProblem {
	if source.Kind != keysource.JWT {
		return nil
	}
	lastName := source.Name
	if source.HasPointer() {
		lastName = source.Name[strings.LastIndexByte(source.Name, '/')+1:]
	}
	if slices.Contains(structuredClaims(), lastName) {
		return &valueProblem{
			"this claim is usually an array or an object, which gives no key",
			"name a claim that is a string, a number or a boolean, like jwt:sub, or write a pointer to such a value, like jwt:/tenant/id",
		}
	}
	if outer, _, dotted := strings.Cut(source.Name, "."); dotted && !strings.ContainsAny(source.Name, "/:") {
		return &valueProblem{
			"this is the claim named " + strconv.Quote(source.Name) + ", not a member of the claim " + strconv.Quote(outer),
			"write jwt:/" + strings.ReplaceAll(source.Name, ".", "/") + " for a nested claim; ignore this advice if the claim's name has the dot",
		}
	}
	return nil
}
