package leaderloop

import (
	"errors"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/shardmap"
)

// TestServiceChangesAreRefused checks that each refusal names the field, the value and the remedy.
func TestServiceChangesAreRefused(t *testing.T) {
	chat, search := ack.ServiceSpec{Name: "chat", Shards: 8}, ack.ServiceSpec{Name: "search", Shards: 4}
	two, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 12, ack.DefaultTiming(), chat, search))
	if err != nil {
		t.Fatal(err)
	}
	one, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 12, ack.DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(reason error, nodes ...shardmap.NodeID) error {
		return translatePolicyError(&ack.ServiceError{Service: "chat", Reason: reason, Nodes: nodes})
	}
	for name, tc := range map[string]struct {
		err, kind error
		text      string
	}{
		"unknown":        {checkRemovedService(two, "shop"), api.ErrUnknownService, `service = "shop" is not a service of the cluster: give one of chat, search`},
		"only":           {checkRemovedService(one, "default"), api.ErrServiceInUse, `service = "default" is the only service`},
		"exists":         {checkAddedService(two, api.Action{Service: "chat", Shards: 8}, nil), api.ErrRefused, `service = "chat" exists already, with 8 shards`},
		"other number":   {checkAddedService(two, api.Action{Service: "chat", Shards: 9}, nil), api.ErrRefused, "shards = 9, but service chat has 8"},
		"other file":     {checkAddedService(two, api.Action{Service: "wiki", Shards: 9}, map[string]int{"a": 9, "b": 16}), api.ErrRefused, "shards = 9, but the configuration of node b has services.wiki.shards = 16"},
		"runs":           {refused(ack.ErrServiceRuns, "a", "b"), api.ErrServiceInUse, `nodes a, b run service = "chat": remove services.chat.upstream`},
		"owned":          {refused(ack.ErrServiceInUse), api.ErrServiceInUse, "`shardway service list` shows the owners"},
		"no range":       {refused(ack.ErrNoServiceRange), api.ErrRefused, "give a smaller number of shards"},
		"too many":       {refused(ack.ErrTooManyServices), api.ErrRefused, "remove a service first"},
		"removed before": {refused(ack.ErrNoService), api.ErrUnknownService, "shows the services"},
	} {
		if !errors.Is(tc.err, tc.kind) || !strings.Contains(tc.err.Error(), tc.text) {
			t.Errorf("%s: %v, want %q", name, tc.err, tc.text)
		}
	}
	if err := errors.Join(checkRemovedService(two, "chat"), checkAddedService(two, api.Action{Service: "shop", Shards: 8}, nil)); err != nil {
		t.Error(err)
	}
}
