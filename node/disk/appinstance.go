package disk

import "fmt"

// MaxAppInstance is the longest app instance that is stored, in bytes.
const MaxAppInstance = 256

// appInstance is the content of app.json.
type appInstance struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"`
}

const appFile = "app.json"

// AppInstance returns the app instance that KeepAppInstance stored last, empty if none.
func (d *Dir) AppInstance() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var a appInstance
	_, err := load(d.b, appFile, &a)
	return a.Instance, err
}

// KeepAppInstance stores, durably, which instance of the app the node has seen. instance has
// 1 to MaxAppInstance bytes.
func (d *Dir) KeepAppInstance(instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return errClosed
	}
	return save(d.b, appFile, appInstance{Format: format, Instance: instance})
}
