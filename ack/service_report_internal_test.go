package ack

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"shardway/shardmap"
)

// heartbeatWithServices returns a heartbeat of a node that runs two services.
func heartbeatWithServices() Heartbeat {
	return Heartbeat{
		FormatVersion: ServicesFormatVersion, Node: "a", Server: "a/1", Boot: 1, Number: 2, Weight: 1, HasServices: true, Instances: shardmap.InstancesUpTo(3),
		Services: []ServiceReport{
			{ID: 0, Instances: 0},
			{ID: 7, Instances: 6, Unhealthy: true, App: AppHealth{Failing: true, Refused: true, Starting: true, FlapCount: 3}},
		},
	}
}

func TestHeartbeatContainsServices(t *testing.T) {
	full, none := heartbeatWithServices(), heartbeatWithServices()
	none.Services, none.Instances = nil, 0
	reported := heartbeatWithServices()
	reported.Unreachable = []shardmap.NodeID{"b"}
	for name, sent := range map[string]Heartbeat{"two services": full, "no services": none, "with a report": reported} {
		encoded, _ := sent.MarshalBinary()
		var received Heartbeat
		if err := received.UnmarshalBinary(encoded); err != nil || !reflect.DeepEqual(received, sent) {
			t.Errorf("%s: %v, got %+v, want %+v", name, err, received, sent)
		}
		for length := range encoded {
			if err := received.UnmarshalBinary(encoded[:length]); err == nil && received.HasServices {
				t.Errorf("%s: %d of %d bytes are accepted", name, length, len(encoded))
			}
		}
	}
}

func TestHeartbeatWithoutServicesIsEncodedAsBefore(t *testing.T) {
	plain := Heartbeat{FormatVersion: ServicesFormatVersion, Node: "a", Server: "a/1", Boot: 1, Number: 2, Weight: 1}
	want, _ := plain.MarshalBinary()
	old := plain
	old.FormatVersion = MinFormatVersion
	wantOld, _ := old.MarshalBinary()
	plain.Services = []ServiceReport{{ID: 1}} // not sent without HasServices
	if got, _ := plain.MarshalBinary(); !bytes.Equal(got, want) {
		t.Error("a heartbeat without services contains data about them")
	}
	old.HasServices = true // not sent in an earlier format version
	if got, _ := old.MarshalBinary(); !bytes.Equal(got, wantOld) {
		t.Error("a heartbeat of an earlier format version contains services")
	}
}

func TestInvalidServiceReportsAreCorrupt(t *testing.T) {
	for name, change := range map[string]func(h *Heartbeat){
		"same service":   func(h *Heartbeat) { h.Services[1].ID = 0 },
		"out of order":   func(h *Heartbeat) { h.Services[0].ID = 9 },
		"not normalized": func(h *Heartbeat) { h.Services[0].Instances = 1 },
		"too many": func(h *Heartbeat) {
			for id := range uint64(maxServiceReports) {
				h.Services = append(h.Services, ServiceReport{ID: 8 + id})
			}
		},
	} {
		heartbeat := heartbeatWithServices()
		change(&heartbeat)
		encoded, _ := heartbeat.MarshalBinary()
		var received Heartbeat
		if err := received.UnmarshalBinary(encoded); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	heartbeat := heartbeatWithServices()
	encoded, _ := heartbeat.MarshalBinary()
	encoded[len(encoded)-2] |= 1 << 7 // a flag of a later version
	var received Heartbeat
	if err := received.UnmarshalBinary(encoded); !errors.Is(err, ErrCorrupt) {
		t.Errorf("unknown flag: %v", err)
	}
}

func TestServiceReportOfANodeWithoutServices(t *testing.T) {
	heartbeat := Heartbeat{Instances: 6, Unhealthy: true, App: AppHealth{Failing: true}}
	report, runs := heartbeat.ServiceReport(Service{ID: 4, Name: DefaultService})
	if want := (ServiceReport{ID: 4, Instances: 6, Unhealthy: true, App: AppHealth{Failing: true}}); !runs || report != want {
		t.Errorf("default: %+v, runs: %v", report, runs)
	}
	if _, runs = heartbeat.ServiceReport(Service{Name: "chat"}); runs {
		t.Error("a node without services runs chat")
	}
	heartbeat.HasServices = true
	if _, runs = heartbeat.ServiceReport(Service{Name: DefaultService}); runs {
		t.Error("a node with other services runs the default service")
	}
}

// A heartbeat with everything must fit into a message.
func TestLargestServiceReportFits(t *testing.T) {
	heartbeat := heartbeatWithServices()
	heartbeat.Services = nil
	base, _ := heartbeat.MarshalBinary()
	for id := range uint64(maxServiceReports) {
		heartbeat.Services = append(heartbeat.Services, ServiceReport{ID: 1<<20 + id, Instances: 1 << 31, App: AppHealth{FlapCount: maxFlaps}})
	}
	full, _ := heartbeat.MarshalBinary()
	if size := len(full) - len(base); size > 400 {
		t.Errorf("the reports take %d bytes", size)
	}
}
