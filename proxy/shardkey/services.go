package shardkey

import (
	"shardway/internal/problem"
	"shardway/keysource"
	"shardway/proxy/wrapkey"
)

// services contains the services of a key configuration.
type services struct {
	routes *keysource.Services
	rules  []rules // by the index of routes
}

// NewForServices returns the Keys of a cluster with several services. bodyLimit is Spec.BodyLimit. The
// error lists every mistake.
func NewForServices(list []keysource.Service, bodyLimit int) (*Keys, error) {
	routes, err := keysource.NewServices(list)
	if err != nil {
		return nil, err
	}
	keys := &Keys{
		services: &services{routes: routes}, bodyLimit: bodyLimit,
		wrapped: wrapkey.NewFields(routes.Wrapped()), headerNames: routes.Headers(),
	}
	for i := range list {
		missing, err := keysource.ParseMissing(string(list[i].Missing))
		if err != nil {
			return nil, err
		}
		keys.services.rules = append(keys.services.rules, rules{
			service: list[i].Name, table: routes.Table(i), missingPolicy: missing, cookie: list[i].Cookie.WithDefaults(),
		})
	}
	return keys, nil
}

// HasServices reports whether the key configuration has several services.
func (k *Keys) HasServices() bool { return k.services != nil }

// rulesOf returns the rules of the service with the name of Extractor.Service.
func (k *Keys) rulesOf(service string) *rules {
	if k.services != nil {
		for i := range k.services.rules {
			if found := &k.services.rules[i]; found.service == service {
				return found
			}
		}
	}
	return &k.rules
}

// detailServices is the subject of the problem for a request that apps could read as one of two services.
const detailServices = "the routes of services"

// detailInvalidHost is the detail of the problem for a host that apps may read in different ways.
const detailInvalidHost = "an invalid host name for "

// Service returns the name of the service of the request, after Find. It is empty if the key configuration
// has no services.
func (x *Extractor) Service() string { return x.rules.service }

// findService sets x.rules to the rules of the service of the request.
func (x *Extractor) findService() *problem.Problem {
	services := x.Keys.services
	if field := x.Request.Host(); services.routes.HasHosts() && cap(x.host) < len(field) {
		x.host = make([]byte, 0, len(field))
	}
	index, invalid := services.find(x.host[:0], x.Request.Host(), x.Grow(len(x.Request.Path())), x.Request.Path())
	if invalid != nil {
		return invalid
	}
	x.rules = &services.rules[index]
	return nil
}

// find returns the index of the service of requests with a Host header and a path. hostBuffer and pathBuffer are
// empty, and have the capacity of the host, if a route has one, and of the path.
func (sv *services) find(hostBuffer, field, pathBuffer, target []byte) (index int, invalid *problem.Problem) {
	var host []byte
	if sv.routes.HasHosts() {
		name, ok := keysource.HostName(hostBuffer, field)
		if !ok {
			return -1, ambiguityProblem(detailInvalidHost, detailServices)
		}
		host = name
	}
	path := keysource.ParsePath(pathBuffer, target)
	index, unambiguous := sv.routes.Match(host, &path)
	switch {
	case !unambiguous:
		return -1, ambiguityProblem(detailAmbiguousPath, detailServices)
	case index < 0:
		return -1, &problem.Problem{Code: problem.NoService, Detail: "no service has a route for the host and the path of the request", Param: detailServices}
	}
	return index, nil
}

// ServiceOf returns the name of the service of requests with a Host header and a path. It is empty if the key
// configuration has no services.
func (k *Keys) ServiceOf(host, path string) (string, *problem.Problem) {
	if k.services == nil {
		return "", nil
	}
	index, invalid := k.services.find(make([]byte, 0, len(host)), []byte(host), make([]byte, 0, len(path)), []byte(path))
	if invalid != nil {
		return "", invalid
	}
	return k.services.rules[index].service, nil
}
