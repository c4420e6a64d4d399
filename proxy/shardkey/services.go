package shardkey

import (
	"shardway/internal/problem"
	"shardway/keysource"
	"shardway/proxy/wrapkey"
)

// services contains the services of a key configuration.
type services struct {
	routes *keysource.Services // finds the index of a service by host and path
	rules  []rules             // by the index of the service
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

// serviceRoutesSubject is the subject of the problem of a request without a clear service.
const serviceRoutesSubject = "the routes of services"

// detailInvalidHost is the detail of the problem for a host that apps may read in different ways.
const detailInvalidHost = "an invalid host name for "

// Service returns the name of the service of the request, after Find. It is empty if the key configuration
// has no services.
func (e *Extractor) Service() string { return e.rules.service }

// findService sets e.rules to the rules of the service of the request.
func (e *Extractor) findService() *problem.Problem {
	services := e.Keys.services
	hostField, path := e.Request.Host(), e.Request.Path()
	if services.routes.HasHosts() && cap(e.hostBuffer) < len(hostField) {
		e.hostBuffer = make([]byte, 0, len(hostField))
	}
	index, invalid := services.find(hostField, path, e.hostBuffer[:0], e.Grow(len(path)))
	if invalid != nil {
		return invalid
	}
	e.rules = &services.rules[index]
	return nil
}

// find returns the index of the service of requests with this Host header and path. The buffers must be empty.
// pathBuffer must have the capacity of the path. hostBuffer must have the capacity of the header if a route names a
// host.
func (s *services) find(hostField, rawPath, hostBuffer, pathBuffer []byte) (index int, invalid *problem.Problem) {
	var host []byte
	if s.routes.HasHosts() {
		name, ok := keysource.HostName(hostBuffer, hostField)
		if !ok {
			return -1, ambiguityProblem(detailInvalidHost, serviceRoutesSubject)
		}
		host = name
	}
	path := keysource.ParsePath(pathBuffer, rawPath)
	index, unambiguous := s.routes.Match(host, &path)
	switch {
	case !unambiguous:
		return -1, ambiguityProblem(detailAmbiguousPath, serviceRoutesSubject)
	case index < 0:
		return -1, &problem.Problem{Code: problem.NoService, Detail: "no service has a route for the host and the path of the request", Param: serviceRoutesSubject}
	}
	return index, nil
}

// ServiceOf returns the name of the service of requests with a Host header and a path. It is empty if the key
// configuration has no services.
func (k *Keys) ServiceOf(host, path string) (string, *problem.Problem) {
	if k.services == nil {
		return "", nil
	}
	index, invalid := k.services.find([]byte(host), []byte(path), make([]byte, 0, len(host)), make([]byte, 0, len(path)))
	if invalid != nil {
		return "", invalid
	}
	return k.services.rules[index].service, nil
}
