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
	var host []byte
	if services.routes.HasHosts() {
		if field := x.Request.Host(); cap(x.host) < len(field) {
			x.host = make([]byte, 0, len(field))
		}
		name, ok := keysource.HostName(x.host[:0], x.Request.Host())
		if !ok {
			return ambiguityProblem(detailInvalidHost, detailServices)
		}
		host = name
	}
	path := keysource.ParsePath(x.Grow(len(x.Request.Path())), x.Request.Path())
	index, unambiguous := services.routes.Match(host, &path)
	switch {
	case !unambiguous:
		return ambiguityProblem(detailAmbiguousPath, detailServices)
	case index < 0:
		return &problem.Problem{Code: problem.NoService, Detail: "no service has a route for the host and the path of the request", Param: detailServices}
	}
	x.rules = &services.rules[index]
	return nil
}
