package gossip

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/hashicorp/serf/serf"
)

// membershipMessageTypeCount is the number of message types about membership in Serf. They are the
// first ones: leave, join and push-pull.
const membershipMessageTypeCount = 3

// dropNonMembershipMessages makes Serf (v0.10.4) drop all messages that are not about membership. It must
// be called before Serf starts.
//
// If gossip is encrypted, Serf answers queries of any member about its keys, and lets the member
// install, use and remove keys. A holder of the previous secret could obtain the new secret in
// this way. In addition, a query about keys without a payload, or with an empty filter, panics in
// a goroutine of Serf. No setting disables queries, except an unexported field for tests, which
// Serf checks before it decodes a message.
func dropNonMembershipMessages(config *serf.Config) error {
	field := reflect.ValueOf(config).Elem().FieldByName("messageDropper")
	if !field.IsValid() || field.Kind() != reflect.Func || field.Type().NumIn() != 1 || field.Type().In(0).Kind() != reflect.Uint8 {
		return errors.New("gossip: this version of Serf has no messageDropper, so its queries cannot be turned off")
	}
	drop := reflect.MakeFunc(field.Type(), func(in []reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(in[0].Uint() >= membershipMessageTypeCount)}
	})
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(drop) //nolint:gosec // the field is unexported
	return nil
}
