package keysource

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Spec contains the sources and routes as text of the configuration.
type Spec struct {
	// Sources are tried in order. Empty means Default.
	Sources []string
	// Routes contains other sources for requests below a path prefix. The longest matching prefix
	// applies.
	Routes []Route
}

// Route contains the sources for a path prefix. The prefix /api matches /api and every path below
// /api/, but not /apix.
type Route struct {
	Prefix  string
	Sources []string
}

// SourceList contains the sources for a request.
type SourceList struct {
	Sources     []Source // tried in order; never empty
	Description string   // the sources as text, for error messages
	// Protocols contains the subprotocols that a node may select for a WebSocket whose first message
	// it reads, in order of preference.
	Protocols []string
}

// ServedByAnyNode reports whether any node serves a request in which no source has a key. Then the last
// source is None.
func (list *SourceList) ServedByAnyNode() bool {
	return list.Sources[len(list.Sources)-1].Kind == None
}

// Table maps the path of a request to its sources.
type Table struct {
	defaults SourceList
	routes   []route // longest prefix first
	wrapped  []Source
}

// route is a parsed Route.
type route struct {
	prefix string
	SourceList
}

// NewTable parses a Spec. The error joins one *valueerr.Error for each mistake, whose Key is "key"
// or "routes".
func NewTable(spec Spec) (*Table, error) {
	var problems []error
	table := &Table{}
	sources := spec.Sources
	if len(sources) == 0 {
		sources = []string{Default}
	}
	table.defaults = parseSources("key", "", sources, &problems)
	if generatesAllKeys(table.defaults.Sources) {
		problems = append(problems, mintAlone(strings.Join(sources, ",")))
	}
	original := make(map[string]string, len(spec.Routes)) // original text by parsed prefix
	for _, configured := range spec.Routes {
		quoted := strconv.Quote(configured.Prefix)
		prefix, err := parsePrefix(configured.Prefix)
		first, isDuplicate := original[prefix]
		switch {
		case err != nil:
			problems = append(problems, err)
		case isDuplicate:
			problems = append(problems, &valueerr.Error{
				Key: "routes", Value: configured.Prefix, Wrong: quoted + " is the same path prefix as " + strconv.Quote(first), Remedy: "keep one of them",
			})
		default:
			original[prefix] = configured.Prefix
		}
		if len(configured.Sources) == 0 {
			problems = append(problems, &valueerr.Error{
				Key: "routes", Value: configured.Prefix, Wrong: "no key source is set for " + quoted, Remedy: "set one, such as header:X-Tenant",
			})
		}
		sources := parseSources("routes", quoted+": ", configured.Sources, &problems)
		table.routes = append(table.routes, route{prefix, sources})
	}
	slices.SortStableFunc(table.routes, func(a, b route) int { return len(b.prefix) - len(a.prefix) })
	for _, list := range table.lists() {
		table.addWrapped(list)
	}
	if err := table.checkWrapped(); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return table, nil
}

// isMint reports whether the source generates keys.
func isMint(source Source) bool { return source.Kind == Mint }

// mintAlone returns the error for mint as the only source outside routes: if every request got a
// new key, no client could access the object that it has created.
func mintAlone(value string) error {
	return &valueerr.Error{
		Key: "key", Value: value, Wrong: "every request would get a new key, so no client could return to its object",
		Remedy: "put a source before mint, such as cookie:sid, or set mint for a path under routes",
	}
}

// generatesAllKeys reports whether no source reads a key, and at least one generates keys.
func generatesAllKeys(sources []Source) bool {
	readsKey := func(source Source) bool { return !isLastResort(source) }
	return !slices.ContainsFunc(sources, readsKey) && slices.ContainsFunc(sources, isMint)
}

// isLastResort reports whether the source applies to requests in which no other source has a key.
func isLastResort(source Source) bool { return source.Kind == Mint || source.Kind == None }

// findMisplaced returns the first source that must be the last one but is not. Sources that generate
// keys for one method may precede other last resorts.
func findMisplaced(sources []Source) (misplaced Source, found bool) {
	for i, source := range sources {
		mayContinue := isMint(source) && source.Name != ""
		isLast := i == len(sources)-1
		if isLast || !isLastResort(source) || mayContinue && isLastResort(sources[i+1]) {
			continue
		}
		return source, true
	}
	return Source{}, false
}

// parseSources parses the sources of one setting. location is a prefix of the error messages. It
// appends errors to problems.
func parseSources(key, location string, texts []string, problems *[]error) SourceList {
	var list SourceList
	words := make([]string, 0, len(texts))
	for _, text := range texts {
		source, err := Parse(text)
		if valueErr := (*valueerr.Error)(nil); errors.As(err, &valueErr) {
			valueErr.Key = key
			valueErr.Wrong = location + strconv.Quote(text) + ": " + valueErr.Wrong
			*problems = append(*problems, valueErr)
			continue
		}
		if source.Kind == WSProtocol {
			list.Protocols = append(list.Protocols, source.Name)
			continue
		}
		list.Sources = append(list.Sources, source)
		words = append(words, source.String())
	}
	if misplaced, found := findMisplaced(list.Sources); found {
		word := misplaced.Kind.String()
		*problems = append(*problems, &valueerr.Error{
			Key: key, Value: strings.Join(texts, ","), Wrong: location + "a source follows " + word, Remedy: "put " + word + " last: it is used if no other source has a key",
		})
	}
	if err := checkProtocols(key, location, &list); err != nil {
		*problems = append(*problems, err)
	}
	list.Description = strings.Join(words, ", ")
	return list
}

// checkProtocols validates the subprotocols of a list. They have a meaning only together with a source
// that reads the first message of a WebSocket.
func checkProtocols(key, location string, list *SourceList) error {
	if len(list.Protocols) == 0 {
		return nil
	}
	first := "ws-protocol:" + list.Protocols[0]
	if !slices.ContainsFunc(list.Sources, Source.ReadsFirstMessage) {
		return &valueerr.Error{
			Key: key, Value: first, Wrong: location + strconv.Quote(first) + " has no effect without ws-json or ws-first", Remedy: "add ws-json:/POINTER or ws-first, or remove " + first,
		}
	}
	for i, name := range list.Protocols {
		if slices.Contains(list.Protocols[:i], name) {
			return &valueerr.Error{Key: key, Value: "ws-protocol:" + name, Wrong: location + "the subprotocol " + strconv.Quote(name) + " is there twice", Remedy: "keep one of them"}
		}
	}
	return nil
}

// parsePrefix parses a path prefix in the same way as ParsePath parses a path.
func parsePrefix(text string) (string, error) {
	invalid := func(remedy string) (string, error) {
		return "", &valueerr.Error{Key: "routes", Value: text, Wrong: strconv.Quote(text) + " is not a path prefix", Remedy: remedy}
	}
	if !strings.HasPrefix(text, "/") {
		return invalid("begin it with a slash")
	}
	if strings.ContainsAny(text, " \t\r\n#") {
		return invalid("write blanks as %20 and # as %23")
	}
	path := ParsePath(nil, []byte(text))
	if path.hasDotSegment || path.agreed <= len(text) {
		return invalid("write it without ., .., empty segment, \\ and ;: paths with them are refused")
	}
	return string(path.decoded), nil
}

// Headers returns the names of all headers in which a source finds a key, each once, or nil if
// there are none.
func (t *Table) Headers() (names []string) {
	for _, list := range t.lists() {
		for _, source := range list.Sources {
			for _, single := range source.Single() {
				isHeader := single.Kind == Header || single.Kind == Wrap && single.Wrapped == Header
				if isHeader && !slices.Contains(names, single.Name) {
					names = append(names, single.Name)
				}
			}
		}
	}
	return names
}

// lists returns the sources of the defaults and of all routes.
func (t *Table) lists() []SourceList {
	lists := []SourceList{t.defaults}
	for i := range t.routes {
		lists = append(lists, t.routes[i].SourceList)
	}
	return lists
}

// HasRoutes reports whether the sources depend on the path.
func (t *Table) HasRoutes() bool { return len(t.routes) > 0 }

// Defaults returns the sources of requests that no route matches.
func (t *Table) Defaults() *SourceList { return &t.defaults }

// Match returns the sources of a request by its path. unambiguous is false if another app may
// parse the path differently, so that a route with other sources could match.
func (t *Table) Match(path *ParsedPath) (list *SourceList, unambiguous bool) {
	if path.hasDotSegment {
		return nil, false
	}
	var otherCase *route // longest route that matches only if the case of letters is ignored
	for i := range t.routes {
		candidate := &t.routes[i]
		switch {
		case hasPathPrefix(candidate.prefix, path.decoded):
			return &candidate.SourceList, path.agreesOn(candidate.prefix) && !otherCase.precedes(candidate.prefix, &candidate.SourceList)
		case otherCase == nil && hasPathPrefixInOtherCase(candidate.prefix, path.decoded):
			otherCase = candidate
		}
	}
	return &t.defaults, !otherCase.precedes("", &t.defaults)
}

// precedes reports whether an app that ignores the case of letters uses the sources of r, and they differ
// from list, which applies for the shorter prefix. r may be nil.
func (r *route) precedes(prefix string, list *SourceList) bool {
	return r != nil && len(r.prefix) > len(prefix) && r.Description != list.Description
}

// agreesOn reports whether all apps agree on a prefix of the path and on its end: the slash, or the byte
// after it.
func (r *ParsedPath) agreesOn(prefix string) bool {
	endsWithSlash := strings.HasSuffix(prefix, "/")
	return r.agreed > len(prefix) || r.agreed == len(prefix) && endsWithSlash
}

// hasPathPrefix reports whether path equals prefix or is below prefix.
func hasPathPrefix(prefix string, path []byte) bool {
	if len(path) < len(prefix) || string(path[:len(prefix)]) != prefix {
		return false
	}
	return len(path) == len(prefix) || strings.HasSuffix(prefix, "/") || path[len(prefix)] == '/'
}

// hasPathPrefixInOtherCase is hasPathPrefix for an app that ignores the case of ASCII letters, such as
// Express or ASP.NET.
func hasPathPrefixInOtherCase(prefix string, path []byte) bool {
	if len(path) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lowerCase(path[i]) != lowerCase(prefix[i]) {
			return false
		}
	}
	return len(path) == len(prefix) || strings.HasSuffix(prefix, "/") || path[len(prefix)] == '/'
}

// lowerCase returns an ASCII letter in lower case, and any other byte unchanged.
func lowerCase(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}
