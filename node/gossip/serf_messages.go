package gossip

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/hashicorp/serf/serf"
)

// serfMembership is the number of Serf's kinds of messages that tell of members, the first of
// all: leave, join, and what two members exchange whole.
const membershipMessageTypes = 3

// confine has Serf (v0.10.4) take no other messages. It must be called before Serf begins.
//
// With keys, Serf answers queries of any member for them, and lets it install, use and remove
// some: who had the secret before it was replaced got the next one that way. And a query about
// keys without a payload, or with an empty filter, panics in a goroutine of Serf's own. Nothing
// in its configuration turns that off but a field for its tests, which it asks before it decodes
// anything.
func dropOtherMessages(c *serf.Config) error {
	f := reflect.ValueOf(c).Elem().FieldByName("messageDropper")
	if !f.IsValid() || f.Kind() != reflect.Func || f.Type().NumIn() != 1 || f.Type().In(0).Kind() != reflect.Uint8 {
		return errors.New("gossip: this version of Serf has no messageDropper, so its queries cannot be turned off")
	}
	drop := reflect.MakeFunc(f.Type(), func(in []reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(in[0].Uint() >= membershipMessageTypes)}
	})
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(drop) //nolint:gosec // it is not exported
	return nil
}
