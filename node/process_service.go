package node

import (
	"fmt"

	"shardway/admin/api"
	"shardway/node/childproc"
	"shardway/node/keyhash"
	"shardway/proxy/shardkey"
)

// processService shows the processes of the app of this node to operators. Any goroutine may use it.
type processService struct {
	node       string
	supervisor *childproc.Supervisor
	hasher     *keyhash.Hasher
}

// hashOfKey returns the key_hash of a key.
func (service *processService) hashOfKey(key string) string {
	return fmt.Sprintf("%016x", shardkey.Hash(service.hasher.Key(), []byte(key)))
}

// failureSummary returns the number of keys or shards with a repeatedly failing process, and the error
// of the process with the most failures. A nil service has no failures.
func (service *processService) failureSummary() (count int, worstError string) {
	if service == nil {
		return 0, ""
	}
	failures := service.supervisor.Failures()
	if len(failures) == 0 {
		return 0, ""
	}
	return len(failures), fmt.Sprintf("shard %d: %.200s", failures[0].Shard, failures[0].Reason)
}

// Processes returns the processes of the app. It implements api.ProcessService.
func (service *processService) Processes() api.ProcessList {
	list := api.ProcessList{Node: service.node, Processes: []api.Process{}, Failing: []api.FailingProcess{}}
	list.Max = service.supervisor.Max()
	for _, info := range service.supervisor.List() {
		process := api.Process{
			Shard: uint32(info.Shard), Epoch: uint64(info.Epoch), State: info.State.String(), PID: info.PID, Addr: info.Addr, Dir: info.Dir,
			IdleMS: info.Idle.Milliseconds(),
		}
		if !info.StartedAt.IsZero() {
			process.StartedAt = &info.StartedAt
		}
		process.KeyHash, process.Key = service.visibleKey(info.Key)
		list.Processes = append(list.Processes, process)
	}
	for _, failure := range service.supervisor.Failures() {
		failing := api.FailingProcess{Shard: uint32(failure.Shard), Failures: failure.Count, Error: failure.Reason}
		failing.KeyHash, failing.Key = service.visibleKey(failure.Key)
		list.Failing = append(list.Failing, failing)
	}
	return list
}

// visibleKey returns the hash of a key, and the key itself if operators may read keys. Keys can be personal data, so
// the configuration decides. Both results are empty without a key.
func (service *processService) visibleKey(key string) (hash, text string) {
	if key == "" {
		return "", ""
	}
	if service.supervisor.ShowsKeys() {
		text = key
	}
	return service.hashOfKey(key), text
}
