package disk

import "fmt"

// MaxAppInstance is the maximum length of a stored app instance in bytes.
const MaxAppInstance = 256

// appInstance is the content of app.json.
type appInstance struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"`
}

const appFile = "app.json"

// AppInstance returns the app instance that KeepAppInstance stored last, "" if there is
// none.
func (d *Dir) AppInstance() (string, error) {
	var a appInstance
	_, err := load(d.b, appFile, &a)
	return a.Instance, err
}

// KeepAppInstance durably stores the app instance that the node has seen. instance must
// have 1 to MaxAppInstance bytes. Calls must not overlap. The call waits for the disk, but
// other methods of d do not wait for the call.
func (d *Dir) KeepAppInstance(instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	return d.keep(appFile, appInstance{Format: format, Instance: instance})
}

// keep writes a file durably without holding a lock, so that Boot and Cluster do not block
// if the disk hangs. Calls for the same file must not overlap.
func (d *Dir) keep(name string, v any) error {
	d.mu.Lock()
	done := d.closed
	d.mu.Unlock()
	if done {
		return errClosed
	}
	return save(d.b, name, v)
}
