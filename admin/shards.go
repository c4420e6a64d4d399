package admin

import (
	"fmt"
	"math"
	"net/http"
	"strconv"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// shard returns the owner of one shard and its history.
func (s *Server) shard(w http.ResponseWriter, r *http.Request) error {
	if s.api.History == nil {
		return problem.New(problem.NotFound, "this node remembers no moves")
	}
	values, err := query(r, "service")
	if err != nil {
		return err
	}
	all := s.api.Cluster.Shards()
	given := r.PathValue("shard")
	number, err := strconv.ParseUint(given, 10, 32)
	if err != nil {
		return badParam("shard", given, "is not a whole number: give a value such as 17")
	}
	shardMap := s.api.Cluster.Map()
	if len(shardMap.Services) > 0 || values.has("service") {
		service, err := findService(&shardMap, values.get("service"))
		if err != nil {
			return err
		}
		inService, err := shardInRange(&shardMap, service, number)
		if err != nil {
			return err
		}
		number = uint64(service.First + inService)
	}
	shard, found := all.Find(uint32(min(number, math.MaxUint32)))
	if !found {
		p := problem.Newf(problem.NotFound, "shard = %d does not exist: %s", number, describeShardRange(len(all.Shards)))
		p.Param, p.Value = "shard", given
		return p
	}
	return writeJSON(w, api.ShardHistory{Shard: shard, Moves: nonNil(s.api.History.Moves(uint32(number)))})
}

// describeShardRange describes the valid shard numbers for an error message.
func describeShardRange(shardCount int) string {
	if shardCount == 0 {
		return "the cluster is not born yet"
	}
	return fmt.Sprintf("the cluster has %d, from 0 to %d", shardCount, shardCount-1)
}
