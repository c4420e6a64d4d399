package keysource

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// serviceRoute is a parsed route of a service.
type serviceRoute struct {
	wildcard bool   // the host stands for all hosts that end in a dot and host
	host     string // in lower case; empty means any host
	prefix   string // decoded path prefix without a final slash; empty means any path
}

// String returns the route in canonical form.
func (r serviceRoute) String() string {
	text := r.host + escapePrefix(r.prefix)
	if r.wildcard {
		text = "*." + text
	}
	if text == "" {
		return "/"
	}
	return text
}

// parseServiceRoute parses a route such as example.com/chat. The error is a *valueerr.Error without a Key.
func parseServiceRoute(text string) (serviceRoute, error) {
	invalid := func(wrong, remedy string) (serviceRoute, error) {
		return serviceRoute{}, &valueerr.Error{Value: text, Wrong: strconv.Quote(text) + " " + wrong, Remedy: remedy}
	}
	host, path := text, ""
	if slash := strings.IndexByte(text, '/'); slash >= 0 {
		host, path = text[:slash], text[slash:]
	}
	route := serviceRoute{}
	host, route.wildcard = strings.CutPrefix(host, "*.")
	name, ok := HostName(nil, []byte(host))
	isEmptyWildcard := route.wildcard && host == ""
	switch {
	case text == "":
		return invalid("is not a route", "write a host, a path prefix, or both, such as example.com/chat; the route of all requests is /")
	case strings.Contains(text, "://"):
		return invalid("has a scheme", "remove the scheme: a route applies to all schemes")
	case strings.HasPrefix(host, "["):
		return invalid("has an IPv6 address", "write a host name")
	case strings.Contains(host, ":"):
		return invalid("has a port", "remove the port: a route applies to all ports")
	case strings.Contains(host, "*"):
		return invalid("has an asterisk in another place than its beginning", "write *.example.com for all hosts below example.com")
	case !ok || isEmptyWildcard:
		return invalid("has no valid host", "write a host name such as chat.example.com, and other letters than a to z in Punycode")
	case path == "" || path == "/":
	default:
		prefix, err := parsePrefix(path)
		if problem := problemOf(err); problem != nil {
			return invalid("has no valid path prefix", problem.Remedy)
		}
		route.prefix = strings.TrimSuffix(prefix, "/")
	}
	route.host = string(name)
	return route, nil
}

// problemOf returns the *valueerr.Error of parsePrefix, or nil.
func problemOf(err error) *valueerr.Error {
	problem, _ := err.(*valueerr.Error) //nolint:errorlint // parsePrefix returns it bare
	return problem
}

// routeGroup contains the routes of all services for one host, longest prefix first.
type routeGroup struct {
	routes []groupRoute
}

// groupRoute is the prefix of a route, and the index of its service.
type groupRoute struct {
	prefix  string // see serviceRoute
	service int
}

// addRoutes adds the routes of all services. It returns one *valueerr.Error for each mistake.
func (s *Services) addRoutes(list []Service) (problems []error) {
	type origin struct {
		service string
		text    string
		exact   string
	}
	first := map[string]origin{} // by the canonical text in lower case
	for i := range list {
		service := &list[i]
		wrong := func(value, wrong, remedy string) {
			problems = append(problems, &valueerr.Error{Key: "services." + service.Name + ".routes", Value: value, Wrong: wrong, Remedy: remedy})
		}
		if len(service.Routes) == 0 {
			wrong("", "the service has no routes, so no request would reach it", "set hosts and path prefixes, such as [chat.example.com, /chat]")
		}
		for _, text := range service.Routes {
			route, err := parseServiceRoute(text)
			if problem := problemOf(err); problem != nil {
				wrong(problem.Value, problem.Wrong, problem.Remedy)
				continue
			}
			exact := route.String()
			folded := strings.ToLower(exact)
			switch earlier, isDuplicate := first[folded]; {
			case !isDuplicate:
				first[folded] = origin{service.Name, text, exact}
				s.group(route).routes = append(s.group(route).routes, groupRoute{route.prefix, i})
			case earlier.service == service.Name && earlier.exact == exact:
				wrong(text, fmt.Sprintf("%q is the same route as %q", text, earlier.text), "keep one of them")
			case earlier.service == service.Name: // another spelling of a path, for the same service
				s.group(route).routes = append(s.group(route).routes, groupRoute{route.prefix, i})
			case earlier.exact == exact:
				wrong(text, fmt.Sprintf("%q is the same route as %q of the service %s", text, earlier.text, earlier.service), "keep it in one of the services "+earlier.service+" and "+service.Name)
			default:
				wrong(text, fmt.Sprintf("%q differs only in the case of letters from %q of the service %s, and some apps ignore the case", text, earlier.text, earlier.service), "keep it in one of the services "+earlier.service+" and "+service.Name)
			}
		}
	}
	for _, group := range s.groups() {
		slices.SortStableFunc(group.routes, func(a, b groupRoute) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	return problems
}

// group returns the group of a route. It adds a group if there is none.
func (s *Services) group(route serviceRoute) *routeGroup {
	groups := s.exact
	switch {
	case route.host == "":
		if s.anyHost == nil {
			s.anyHost = &routeGroup{}
		}
		return s.anyHost
	case route.wildcard:
		groups = s.wildcards
	}
	if groups[route.host] == nil {
		groups[route.host] = &routeGroup{}
	}
	return groups[route.host]
}

// groups returns all groups.
func (s *Services) groups() (all []*routeGroup) {
	for _, group := range s.exact {
		all = append(all, group)
	}
	for _, group := range s.wildcards {
		all = append(all, group)
	}
	if s.anyHost != nil {
		all = append(all, s.anyHost)
	}
	return all
}

// HasHosts reports whether a route has a host.
func (s *Services) HasHosts() bool { return len(s.exact)+len(s.wildcards) > 0 }

// Match returns the index of the service of a request. The routes of its host apply first, then those of
// wildcards, the longest host first, and then routes without a host. Among the routes of one host, the
// longest prefix applies. host is a result of HostName. The index is -1 if no route matches. unambiguous
// is false if another app may parse the path differently, so that it would belong to another service.
func (s *Services) Match(host []byte, path *ParsedPath) (index int, unambiguous bool) {
	search := serviceSearch{path: path, service: -1}
	if len(s.exact) > 0 {
		search.in(s.exact[string(host)])
	}
	if len(s.wildcards) > 0 {
		for rest := host; !search.ended; {
			dot := bytes.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			rest = rest[dot+1:]
			search.in(s.wildcards[string(rest)])
		}
	}
	search.in(s.anyHost)
	return search.service, !search.ambiguous
}

// serviceSearch is the state of Services.Match.
type serviceSearch struct {
	path      *ParsedPath
	service   int  // index of the service; -1 means that none was found yet
	ended     bool // all apps agree that the last route matches, or ambiguous is set
	ambiguous bool // apps may read the path as one of several services
}

// in searches the routes of one host. nil means that the host has no routes.
func (search *serviceSearch) in(group *routeGroup) {
	if group == nil {
		return
	}
	for i := range group.routes {
		if search.ended {
			return
		}
		route := &group.routes[i]
		mayMatch, isCertain := search.path.isBelow(route.prefix)
		if !mayMatch {
			continue
		}
		if search.service >= 0 && search.service != route.service {
			search.ambiguous = true
		}
		search.service = route.service
		search.ended = isCertain || search.ambiguous
	}
}

// isBelow reports whether an app may read the path as the prefix or as a path below it, and whether all
// apps do so. An empty prefix stands for all paths.
func (r *ParsedPath) isBelow(prefix string) (mayMatch, isCertain bool) {
	switch {
	case prefix == "":
		return true, true
	case r.hasDotSegment:
		return true, false
	case r.hasInvalidByte:
		return true, false
	case !hasPathPrefixInOtherCase(prefix, r.decoded):
		return r.mayEndAfter(prefix), false
	}
	return true, hasPathPrefix(prefix, r.decoded) && r.agreesOn(prefix)
}

// mayEndAfter reports whether an app may read the path as the prefix, because an escaped end of the path follows.
func (r *ParsedPath) mayEndAfter(prefix string) bool {
	end := len(prefix)
	return r.hasEscapedEnd && end < len(r.decoded) && (r.decoded[end] == '?' || r.decoded[end] == '#') && hasPathPrefixInOtherCase(prefix, r.decoded[:end])
}
