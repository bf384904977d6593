package external

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Changes wakes streams when their ManagedWorkload may have changed. The zero value can be
// used; a nil one never wakes.
type Changes struct {
	mu    sync.Mutex
	waits map[types.NamespacedName]map[chan struct{}]struct{}
}

// subscribe returns a channel that receives after a change; several changes may be one
// receipt. stop ends it.
func (c *Changes) subscribe(key types.NamespacedName) (changed <-chan struct{}, stop func()) {
	if c == nil {
		return nil, func() {}
	}
	wake := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == nil {
		c.waits = map[types.NamespacedName]map[chan struct{}]struct{}{}
	}
	if c.waits[key] == nil {
		c.waits[key] = map[chan struct{}]struct{}{}
	}
	c.waits[key][wake] = struct{}{}
	return wake, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waits[key], wake)
		if len(c.waits[key]) == 0 {
			delete(c.waits, key)
		}
	}
}

// Tell that a ManagedWorkload may have changed.
func (c *Changes) Tell(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for wake := range c.waits[key] {
		select {
		case wake <- struct{}{}:
		default: // it has one to receive
		}
	}
}

// Watch has a cache tell of its ManagedWorkloads.
func (c *Changes) Watch(ctx context.Context, from cache.Informers) error {
	informer, err := from.GetInformer(ctx, &v1alpha1.ManagedWorkload{})
	if err != nil {
		return fmt.Errorf("watching ManagedWorkloads: %w", err)
	}
	tell := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if w, ok := o.(client.Object); ok {
			c.Tell(client.ObjectKeyFromObject(w))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("watching ManagedWorkloads: %w", err)
	}
	return nil
}
