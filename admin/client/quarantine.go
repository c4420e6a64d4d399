package client

import (
	"context"
	"encoding/json"
	"net/http"

	"shardway/admin/api"
)

// KeyName identifies a key by the key itself, or by its key_hash and shard.
type KeyName struct {
	// Service is the service of the key; empty means the service default.
	Service string
	Key     string
	Hash    string
	Shard   *uint32 // with Hash
}

// Quarantine makes nodes respond with 503 to requests for a key, for a duration, or until Lift if
// forText is empty. It returns the action as the node has parsed it.
func (c *Client) Quarantine(ctx context.Context, k KeyName, forText, reason string) (api.Action, error) {
	args := k.arguments()
	args.For, args.Reason = forText, reason
	return c.mark(ctx, api.Quarantine, args)
}

// Lift ends the quarantine of a key.
func (c *Client) Lift(ctx context.Context, k KeyName, reason string) (api.Action, error) {
	args := k.arguments()
	args.Reason = reason
	return c.mark(ctx, api.Lift, args)
}

func (k KeyName) arguments() api.Arguments {
	args := api.Arguments{Service: k.Service, Hash: k.Hash}
	if k.Key != "" {
		args.Key = &k.Key
	}
	if k.Shard != nil {
		shard := uint64(*k.Shard)
		args.Shard = &shard
	}
	return args
}

func (c *Client) mark(ctx context.Context, verb api.Verb, args api.Arguments) (api.Action, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return api.Action{}, err
	}
	return fetchJSON[api.Action](ctx, c, call{method: http.MethodPost, path: "/v1/" + verb.String(), body: body, serverWait: api.ActionTimeout})
}
