package hooks

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// Alive sends the call to all instances. accepted is true if an instance has accepted it, and refused
// if all refuse connections. An error of any instance counts, because that instance may still write.
// Calls must not overlap.
func (in *Instances) Alive(ctx context.Context, call agent.AliveCall) (accepted, refused bool, err error) {
	type result struct {
		accepted, refused bool
		err               error
	}
	results := make([]result, len(in.Calls))
	var calls sync.WaitGroup
	for i, client := range in.Calls {
		calls.Go(func() { results[i].accepted, results[i].refused, results[i].err = client.Alive(ctx, call) })
	}
	calls.Wait()
	refused = true
	for _, one := range results {
		accepted = accepted || one.accepted
		refused = refused && one.refused
		if !one.refused { // an instance that is gone writes nothing
			err = errors.Join(err, one.err)
		} else if err == nil && len(in.Calls) == 1 {
			err = one.err
		}
	}
	if refused {
		err = results[0].err
	}
	return accepted, refused, err
}

// CloseAlive closes the connections of Alive. No call of Alive may be in progress.
func (in *Instances) CloseAlive() {
	for _, client := range in.Calls {
		client.CloseAlive()
	}
}
