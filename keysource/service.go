package keysource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Limits of the services of a cluster.
const (
	// MaxServices is the maximum number of services.
	MaxServices = 64
	// MaxServiceName is the maximum length of the name of a service.
	MaxServiceName = 32
	// MaxServiceShards is the maximum number of shards of all services.
	MaxServiceShards = 1 << 16
)

// Service is the part of the key configuration that describes one service of the cluster.
type Service struct {
	Name string
	// Routes contains the hosts and path prefixes of the requests for the service, such as
	// chat.example.com, *.example.com/chat or /chat. There is at least one.
	Routes []string
	// Shards is the number of shards.
	Shards int
	// Keys contains the sources of the keys. Its routes are path prefixes, which begin at the root of the
	// host.
	Keys    Spec
	Missing Missing
	// Cookie is the scope of the sticky cookie, see Config.Cookie.
	Cookie CookieScope
}

// Services is the parsed form of a list of services. It maps the host and the path of a request to a
// service.
type Services struct {
	tables  []*Table // by the index in the list
	wrapped []Source

	exact     map[string]*routeGroup // by host
	wildcards map[string]*routeGroup // by the part of the host after "*."
	anyHost   *routeGroup            // routes without a host; nil means none
}

// ShardsSetting is the name of the setting in which nodes exchange the number of shards of each service.
const ShardsSetting = "services.shards"

// FormatShards returns the value of ShardsSetting, such as "chat 64, default 1024".
func FormatShards(services []Service) string {
	entries := make([]string, len(services))
	for i := range services {
		entries[i] = services[i].Name + " " + strconv.Itoa(services[i].Shards)
	}
	slices.Sort(entries)
	return strings.Join(entries, ", ")
}

// ParseShards returns the number of shards of a service in a value of ShardsSetting. found is false if the value does not
// contain the service.
func ParseShards(value, service string) (shards int, found bool) {
	for entry := range strings.SplitSeq(value, ", ") {
		name, number, _ := strings.Cut(entry, " ")
		if count, err := strconv.Atoi(number); err == nil && name == service {
			return count, true
		}
	}
	return 0, false
}

// NewServices parses a list of services. The error joins one *valueerr.Error for each mistake, whose Key
// is that of the configuration file, such as services.chat.routes.
func NewServices(list []Service) (*Services, error) {
	services := &Services{exact: map[string]*routeGroup{}, wildcards: map[string]*routeGroup{}}
	problems := checkServices(list)
	for i := range list {
		service := &list[i]
		table, err := NewTable(service.Keys)
		if err != nil {
			problems = append(problems, prefixKeys(err, service.Name)...)
			table = &Table{}
		}
		if _, err := ParseMissing(string(service.Missing)); err != nil {
			problems = append(problems, prefixKeys(err, service.Name)...)
		}
		if err := service.checkCookie(list); err != nil {
			problems = append(problems, prefixKeys(err, service.Name)...)
		}
		services.tables = append(services.tables, table)
	}
	problems = append(problems, services.addRoutes(list)...)
	if len(problems) == 0 {
		problems = services.joinWrapped(list)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return services, nil
}

// checkServices checks the names and the numbers of shards.
func checkServices(list []Service) (problems []error) {
	wrong := func(key, value, wrong, remedy string) {
		problems = append(problems, &valueerr.Error{Key: key, Value: value, Wrong: wrong, Remedy: remedy})
	}
	if len(list) > MaxServices {
		wrong("services", strconv.Itoa(len(list)), fmt.Sprintf("a cluster has at most %d services", MaxServices), "remove some of them")
	}
	seen, total := map[string]bool{}, 0
	for i := range list {
		service := &list[i]
		key := "services." + service.Name
		switch {
		case !ValidServiceName(service.Name):
			wrong("services", service.Name, strconv.Quote(service.Name)+" is not a name of a service",
				fmt.Sprintf("use 1 to %d lower-case letters, digits and dashes, and no dash at either end", MaxServiceName))
		case seen[service.Name]:
			wrong(key, "", "the service is there twice", "keep one of them")
		}
		seen[service.Name] = true
		if service.Shards < 1 || service.Shards > MaxServiceShards {
			wrong(key+".shards", strconv.Itoa(service.Shards), "out of bounds", fmt.Sprintf("give a number from 1 to %d", MaxServiceShards))
			continue
		}
		total += service.Shards
	}
	if total > MaxServiceShards {
		wrong("services", strconv.Itoa(total), fmt.Sprintf("the services have %d shards in all, more than %d", total, MaxServiceShards), "lower the number of shards of some services that the cluster does not have yet")
	}
	return problems
}

// ValidServiceName reports whether name consists of 1 to MaxServiceName lower-case letters, digits and
// dashes, and neither begins nor ends with a dash.
func ValidServiceName(name string) bool {
	isOther := func(char rune) bool {
		return (char < 'a' || char > 'z') && (char < '0' || char > '9') && char != '-'
	}
	hasOuterDash := strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-")
	return len(name) >= 1 && len(name) <= MaxServiceName && !hasOuterDash && !strings.ContainsFunc(name, isOther)
}

// checkCookie returns the first mistake of the sticky cookie, if the service uses it. The app of any
// service may read a cookie, because clients send it to all services of a host.
func (sv *Service) checkCookie(list []Service) error {
	if sv.Missing != MissingCookie {
		return nil
	}
	if err := (Config{Services: list, Cookie: sv.Cookie}).CheckCookie(); err != nil {
		valueErr := (*valueerr.Error)(nil)
		if errors.As(err, &valueErr) {
			return &valueerr.Error{Key: "cookie", Value: valueErr.Value, Wrong: valueErr.Key + ": " + valueErr.Wrong, Remedy: valueErr.Remedy}
		}
		return err
	}
	return nil
}

// prefixKeys returns the errors that err joins. The key of each begins with the service.
func prefixKeys(err error, service string) (prefixed []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range joined.Unwrap() {
			prefixed = append(prefixed, prefixKeys(inner, service)...)
		}
		return prefixed
	}
	valueErr := (*valueerr.Error)(nil)
	if !errors.As(err, &valueErr) {
		return []error{err}
	}
	copied := *valueErr
	if copied.Key == "routes" {
		copied.Key = "paths" // the name of the setting of a service
	}
	copied.Key = "services." + service + "." + strings.ReplaceAll(copied.Key, "-", "_")
	return []error{&copied}
}

// joinWrapped sets s.wrapped to the wrapped fields of all services. Clients send a cookie to all services
// of a host, so each service removes the suffixes of all of them. It returns an error for each field that
// one service wraps and another one reads as it is.
func (s *Services) joinWrapped(list []Service) (problems []error) {
	all := &Table{}
	for _, table := range s.tables {
		for _, sources := range table.lists() {
			all.addWrapped(sources)
		}
	}
	s.wrapped = all.wrapped
	for i, table := range s.tables {
		checked := &Table{defaults: table.defaults, routes: table.routes, wrapped: all.wrapped}
		if err := checked.checkWrapped(); err != nil {
			problems = append(problems, prefixKeys(err, list[i].Name)...)
		}
	}
	return problems
}

// Len returns the number of services.
func (s *Services) Len() int { return len(s.tables) }

// Table returns the sources of a service.
func (s *Services) Table(index int) *Table { return s.tables[index] }

// Wrapped returns the sources of kind Wrap of all services, see Table.Wrapped.
func (s *Services) Wrapped() []Source { return s.wrapped }

// Headers returns the names of all headers in which a service finds a key, each once. nil means that there
// are none.
func (s *Services) Headers() (names []string) {
	for _, table := range s.tables {
		for _, name := range table.Headers() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// canonicalServices is the JSON form of a Config with services.
type canonicalServices struct {
	Services       map[string]canonicalService `json:"services"`
	TrustedProxies []string                    `json:"trusted_proxies,omitempty"`
	BodyBuffer     int64                       `json:"body_buffer,omitempty"`
}

// canonicalService is the JSON form of a Service.
type canonicalService struct {
	Routes       []string            `json:"routes"`
	Shards       int                 `json:"shards"`
	Key          []string            `json:"key"`
	Paths        map[string][]string `json:"paths,omitempty"`
	OnMissingKey Missing             `json:"on_missing_key"`
	Cookie       *CookieScope        `json:"cookie,omitempty"` // nil means the default scope
}

// servicesPrefix begins each canonical text with services, and no other one.
const servicesPrefix = `{"services":`

// canonicalServices returns the value whose JSON form is the canonical text. Config.Services must not be
// empty.
func (c Config) canonicalServices() (canonicalServices, error) {
	if len(c.Sources) > 0 || len(c.Routes) > 0 || c.Missing != "" || c.Cookie != (CookieScope{}) {
		return canonicalServices{}, errors.New("keysource: key configuration: settings outside of the services")
	}
	if _, err := NewServices(c.Services); err != nil {
		return canonicalServices{}, err
	}
	result := canonicalServices{Services: make(map[string]canonicalService, len(c.Services))}
	for i := range c.Services {
		service := &c.Services[i]
		paths, err := canonicalPaths(service.Keys.Routes)
		if err != nil {
			return canonicalServices{}, err
		}
		missing, err := ParseMissing(string(service.Missing))
		if err != nil {
			return canonicalServices{}, err
		}
		canonical := canonicalService{Shards: service.Shards, Key: CanonicalSources(service.Keys.Sources), Paths: paths, OnMissingKey: missing}
		for _, text := range service.Routes {
			route, err := parseServiceRoute(text)
			if err != nil {
				return canonicalServices{}, err
			}
			canonical.Routes = append(canonical.Routes, route.String())
		}
		slices.Sort(canonical.Routes)
		if scope := service.Cookie.withoutDefaults(); service.Missing == MissingCookie && scope != (CookieScope{}) {
			canonical.Cookie = &scope
		}
		result.Services[service.Name] = canonical
	}
	return result, nil
}

// canonicalPaths returns the sources by the escaped path prefix. nil means that there are none.
func canonicalPaths(routes []Route) (map[string][]string, error) {
	if len(routes) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	paths := make(map[string][]string, len(routes))
	for _, route := range routes {
		prefix, err := parsePrefix(route.Prefix)
		if err != nil {
			return nil, err
		}
		paths[escapePrefix(prefix)] = CanonicalSources(route.Sources)
	}
	return paths, nil
}

// routesOf returns the routes of canonical paths, ascending by prefix.
func routesOf(paths map[string][]string) (routes []Route) {
	for prefix, sources := range paths {
		routes = append(routes, Route{Prefix: prefix, Sources: sources})
	}
	slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(a.Prefix, b.Prefix) })
	return routes
}

// services returns the services, ascending by name.
func (c canonicalServices) services() []Service {
	var services []Service
	for name, decoded := range c.Services {
		service := Service{
			Name: name, Routes: decoded.Routes, Shards: decoded.Shards,
			Keys: Spec{Sources: decoded.Key, Routes: routesOf(decoded.Paths)}, Missing: decoded.OnMissingKey,
		}
		if decoded.Cookie != nil {
			service.Cookie = *decoded.Cookie
		}
		services = append(services, service)
	}
	slices.SortFunc(services, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	return services
}
