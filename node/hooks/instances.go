package hooks

import (
	"context"
	"errors"
	"fmt"

	"shardway/ack/agent"
)

// Instances calls the hooks of several app instances of one node.
type Instances struct {
	// Calls are the clients of the instances, by instance.
	Calls []*HTTP
}

// errNoInstance reports a call to an instance that does not exist.
var errNoInstance = errors.New("hooks: no such app instance")

// Do sends the call to the instance that it names.
func (in *Instances) Do(ctx context.Context, call agent.HookCall) agent.HookResult {
	if int(call.Instance) >= len(in.Calls) {
		return agent.HookResult{Err: fmt.Errorf("%w: %d", errNoInstance, call.Instance.Number()), Refused: true}
	}
	return in.Calls[call.Instance].Do(ctx, call)
}
