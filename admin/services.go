package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"shardway/admin/api"
	"shardway/internal/problem"
	"shardway/keysource"
)

// defaultService is the service of requests to the admin port that name none, and the only service of a cluster
// without a list of services.
const defaultService = "default"

// services responds with the list of services.
func (s *Server) services(w http.ResponseWriter, r *http.Request) error {
	if s.api.Services == nil {
		return problem.New(problem.NotFound, "this node lists no services")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list := s.api.Services.Services(r.Context())
	list.Services = nonNil(list.Services)
	return writeJSON(w, list)
}

// readServiceArguments checks the arguments of AddService and RemoveService, and sets Action.Shards.
func (s *Server) readServiceArguments(action *api.Action, args api.Arguments) error {
	if args.Service == "" {
		return missing("service", "give the name of a service, as in "+action.Verb.Example())
	}
	if !keysource.ValidServiceName(args.Service) {
		return badParam("service", args.Service, fmt.Sprintf("is not a name of a service: give 1 to %d lower-case letters, digits and dashes, without a dash at either end", keysource.MaxServiceName))
	}
	if action.Verb != api.AddService {
		return nil
	}
	if args.Shards == nil {
		return missing("shards", `give the number of shards, as in `+action.Verb.Example())
	}
	if *args.Shards < 1 || *args.Shards > keysource.MaxServiceShards {
		return badParam("shards", strconv.FormatUint(*args.Shards, 10), fmt.Sprintf("is out of bounds: give a number from 1 to %d", keysource.MaxServiceShards))
	}
	action.Shards = uint32(*args.Shards)
	return nil
}

// findService returns the service with the name. An empty name means the service default, or the only service.
func findService(shardMap *api.Map, name string) (api.MapService, error) {
	services := shardMap.Services
	if len(services) == 0 {
		services = []api.MapService{{Name: defaultService, Shards: shardMap.Shards}}
	}
	names := make([]string, len(services))
	for i, service := range services {
		if service.Name == name || name == "" && (service.Name == defaultService || len(services) == 1) {
			return service, nil
		}
		names[i] = service.Name
	}
	if name == "" {
		return api.MapService{}, missing("service", "the cluster has several services: give one of "+strings.Join(names, ", "))
	}
	return api.MapService{}, unknownService(name, names)
}

// unknownService returns the error for a service that the cluster does not have. names are its services.
func unknownService(name string, names []string) *problem.Problem {
	p := problem.Newf(problem.UnknownService, "service = %q is not a service of the cluster: give one of %s", name, strings.Join(names, ", "))
	p.Param, p.Value = "service", name
	return p
}

// serviceName returns the name of a service for responses. It is empty if the cluster has no list of services.
func serviceName(shardMap *api.Map, service api.MapService) string {
	if len(shardMap.Services) == 0 {
		return ""
	}
	return service.Name
}

// shardInRange checks the number of a shard within a service.
func shardInRange(shardMap *api.Map, service api.MapService, number uint64) (uint32, error) {
	if number < uint64(service.Shards) {
		return uint32(number), nil
	}
	owner := "this cluster"
	if len(shardMap.Services) > 0 {
		owner = "service " + service.Name
	}
	return 0, badParam("shard", strconv.FormatUint(number, 10), fmt.Sprintf("is not a shard of %s: give a number from 0 to %d", owner, service.Shards-1))
}

// describeShard describes the shard of an action. Its number is within its service.
func describeShard(action api.Action) string {
	if action.Service == "" {
		return fmt.Sprintf("shard %d", action.Shard)
	}
	return fmt.Sprintf("shard %d of service %s", action.Shard, action.Service)
}
