package appinstance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/shardmap"
)

// stateWithServices returns a state with the services chat and search.
func stateWithServices(t *testing.T) *ack.State {
	t.Helper()
	state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 12, ack.DefaultTiming(), ack.ServiceSpec{Name: "search", Shards: 4}, ack.ServiceSpec{Name: "chat", Shards: 8}))
	if err != nil || !state.HasServices() {
		t.Fatalf("%v: services %v", err, state.Services())
	}
	return state
}

// reportOf returns the services of an observation as text: ID, instances and health.
func reportOf(observation *ackagent.Observation) string {
	words := []string{strconv.FormatBool(observation.HasServices)}
	for _, report := range observation.Services {
		words = append(words, fmt.Sprintf("%d:%b:%v", report.ID, report.Instances, report.Unhealthy))
	}
	return strings.Join(words, " ")
}

// The health of the app of one service does not affect another service.
func TestServicesAreReportedSeparately(t *testing.T) {
	state := stateWithServices(t)
	services := NewServices("a", map[string]ack.InstanceBits{"chat": 0b011, "search": 0b100, "later": 0b1000, "other": 0})
	checks := make([]ackagent.InstanceCheck, 4)
	report := func(now time.Duration) string {
		observation := ackagent.Observation{State: state, Instances: shardmap.InstancesUpTo(4)}
		services.AddTo(now, checks, &observation)
		return fmt.Sprintf("%s of %b", reportOf(&observation), observation.Instances)
	}
	if got := report(0); got != "true 1:100:false 2:11:false of 111" {
		t.Errorf("all healthy: %s", got)
	}
	checks[2].Unhealthy = true
	if got := report(time.Second); got != "true 1:100:true 2:11:false of 111" {
		t.Errorf("search is unhealthy: %s", got)
	}
	checks[2].Unhealthy, checks[1].Unhealthy = false, true
	if got := report(2 * time.Second); got != "true 1:100:false 2:0:false of 101" { // 0 stands for the first instance only
		t.Errorf("an instance of chat is unhealthy: %s", got)
	}
}

func TestServicesOfNodeWithOneApp(t *testing.T) {
	observation := ackagent.Observation{State: stateWithServices(t), Unhealthy: true}
	NewServices("a", map[string]ack.InstanceBits{"search": 1, "chat": 0}).AddTo(0, nil, &observation)
	if got := reportOf(&observation); got != "true 1:0:true" || observation.Instances != 0 {
		t.Errorf("%s of %b", got, observation.Instances)
	}
	observation = ackagent.Observation{State: stateWithServices(t)}
	NewServices("a", nil).AddTo(0, nil, &observation)
	if got := reportOf(&observation); got != "false" {
		t.Errorf("without services: %s", got)
	}
	observation = ackagent.Observation{State: stateWithServices(t)}
	NewServices("a", map[string]ack.InstanceBits{"unknown": 1}).AddTo(0, nil, &observation)
	if got := reportOf(&observation); got != "true" {
		t.Errorf("an unknown service: %s", got)
	}
}
