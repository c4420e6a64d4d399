package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"shardway/admin/api"
	"shardway/internal/problem"
	"shardway/shardmap"
)

// defaultWait is the default time to wait for the next map.
const defaultWait = 30 * time.Second

// shardMap responds with the committed map. With ?after=EPOCH it first waits up to ?wait= for a
// newer map. If none is committed in time, it responds with the current map, or with 304 if the
// client has this map (If-None-Match).
func (s *Server) shardMap(w http.ResponseWriter, r *http.Request) error {
	values, err := query(r, "after", "wait", "replicas")
	if err != nil {
		return err
	}
	withStandbys, err := values.boolean("replicas")
	if err != nil {
		return err
	}
	if withStandbys && s.api.Standbys == nil {
		return problem.New(problem.NotFound, "this node has no standbys")
	}
	after, err := values.number("after")
	if err != nil {
		return err
	}
	wait, err := values.waitTime(defaultWait)
	if err != nil {
		return err
	}
	if values.has("wait") && !values.has("after") {
		return missing("after", "wait requires the epoch you already have, as in ?after=17&wait=30s")
	}
	if values.has("after") {
		s.waitMap(w, r, after, min(wait, api.MaxWait))
		if r.Context().Err() != nil {
			return problem.New(problem.NotReady, "the node is stopping: ask another one")
		}
	}
	shardMap := s.committedMap(withStandbys)
	tag := mapTag(&shardMap)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if matchesETag(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeJSON(w, shardMap)
}

// mapTag returns the entity tag of a map. Standbys can change without a change of the map, so they are part of
// the tag.
func mapTag(shardMap *api.Map) string {
	tag := strconv.FormatUint(shardMap.Epoch, 10)
	if shardMap.Standbys != nil {
		hash := xxhash.New()
		for _, standbys := range shardMap.Standbys {
			_, _ = fmt.Fprintln(hash, standbys) // never fails
		}
		tag += "-" + strconv.FormatUint(hash.Sum64(), 16)
	}
	return `"` + tag + `"`
}

func (s *Server) waitMap(w http.ResponseWriter, r *http.Request, after uint64, wait time.Duration) {
	// If this fails, the shorter default timeout applies.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	s.api.Cluster.WaitMap(ctx, after)
}

// committedMap returns the committed map with all JSON fields set, and with its standbys if withStandbys is set.
func (s *Server) committedMap(withStandbys bool) api.Map {
	read := s.api.Cluster.Map
	if withStandbys {
		read = s.api.Standbys.MapWithStandbys
	}
	shardMap := read()
	shardMap.Hash = api.HashName
	shardMap.Nodes = nonNil(shardMap.Nodes)
	if len(shardMap.Owners) == 0 {
		shardMap.Owners = slices.Repeat([]int{-1}, shardMap.Shards)
	}
	return shardMap
}

// locate returns the shard and the owner of a key, by the map that /v1/map returns.
func (s *Server) locate(w http.ResponseWriter, r *http.Request) error {
	values, err := query(r, "key", "service", "host", "path")
	if err != nil {
		return err
	}
	if !values.has("key") {
		return missing("key", "give the key that requests carry, as in ?key=alice")
	}
	if values.get("key") == "" {
		return emptyKeyProblem()
	}
	shardMap := s.api.Cluster.Map()
	if shardMap.Shards < 1 {
		return problem.New(problem.NotReady, "the node does not know the cluster's shards yet: ask again once /readyz is green")
	}
	service, err := s.locateService(&shardMap, values)
	if err != nil {
		return err
	}
	location := api.Location{Key: values.get("key"), Epoch: shardMap.Epoch, Service: serviceName(&shardMap, service)}
	inService := uint32(shardmap.ShardOf(location.Key, service.Shards))
	location.Shard = service.First + inService
	if location.Service != "" {
		location.ServiceShard = &inService
	}
	if owner, ok := ownerOf(&shardMap, location.Shard); ok {
		location.Owner, location.Endpoint = owner.ID, owner.HTTP
	}
	if s.api.Standbys != nil {
		if standbys := s.api.Standbys.ShardStandbys(location.Shard); standbys != nil {
			location.Standbys, location.NotStandbys = standbys.Standbys, standbys.NotStandbys
		}
	}
	location.Unavailable = s.api.Cluster.Idle(location.Owner)
	if shard, found := s.api.Cluster.Shards().Find(location.Shard); found && shard.Owner == location.Owner {
		location.StaleReturn, location.Instance = shard.StaleReturn, shard.Instance
	}
	return writeJSON(w, location)
}

// locateService returns the service of a request to /v1/locate: the parameter service, or the service of the host
// and the path.
func (s *Server) locateService(shardMap *api.Map, values params) (api.MapService, error) {
	isByRoute := values.has("host") || values.has("path")
	switch {
	case !isByRoute:
		return findService(shardMap, values.get("service"))
	case values.has("service"):
		return api.MapService{}, conflicting("service", values.get("service"), "host or path")
	case s.api.Services == nil:
		return api.MapService{}, problem.New(problem.NotFound, "this node has no routes of services")
	}
	path := cmp.Or(values.get("path"), "/")
	if !strings.HasPrefix(path, "/") {
		return api.MapService{}, badParam("path", path, "does not begin with a slash: give the path of a request, such as /chat/1")
	}
	name, err := s.api.Services.ServiceOf(values.get("host"), path)
	if err != nil {
		return api.MapService{}, err
	}
	return findService(shardMap, name)
}

// ownerOf returns the owner of a shard. ok is false if the shard is orphaned.
func ownerOf(shardMap *api.Map, shard uint32) (owner api.MapNode, ok bool) {
	if int(shard) >= len(shardMap.Owners) {
		return api.MapNode{}, false
	}
	i := shardMap.Owners[shard]
	if i < 0 || i >= len(shardMap.Nodes) {
		return api.MapNode{}, false
	}
	return shardMap.Nodes[i], true
}

// matchesETag reports whether If-None-Match contains tag, by weak comparison (RFC 9110, section
// 13.1.2).
func matchesETag(headers []string, tag string) bool {
	for _, h := range headers {
		for candidate := range strings.SplitSeq(h, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
				return true
			}
		}
	}
	return false
}
