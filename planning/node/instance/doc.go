// Package instance reads packing problems from files: JSON in the terms of
// Kubernetes, and the .vbp files of the literature on vector bin packing.
//
// # JSON
//
//	{
//	  "pods": [{
//	    "name": "web", "count": 12, "cpu": "250m", "memory": "512Mi",
//	    "resources": {"nvidia.com/gpu": 1, "ephemeral-storage": "1Gi"},
//	    "maxPerNode": 1, "maxPerZone": 4, "nodeTypes": ["n2-standard-4"]
//	  }],
//	  "nodeTypes": [{
//	    "name": "n2-standard-4", "cpu": "3920m", "memory": "13Gi", "maxPods": 110,
//	    "resources": {}, "overhead": {"cpu": "200m", "memory": "256Mi", "pods": 6},
//	    "price": 0.19, "max": 20, "zone": "europe-west1-b"
//	  }],
//	  "existing": [{
//	    "type": "n2-standard-4", "count": 2, "stay": {"cpu": "500m"}, "keep": true
//	  }]
//	}
//
// Sizes of node types are allocatable; overhead is what DaemonSets take of each.
// What is absent is unlimited (max, maxPods, maxPerNode, maxPerZone, nodeTypes)
// or nothing (resources, overhead, price, existing). Existing nodes count
// towards their type's max; stay is what pods that must not move take of each,
// and nodes with keep are paid for whether or not anything else runs there.
//
// # VBP
//
// Integers apart by white space: the number of dimensions, the bin's capacity in
// each, the number of kinds of items; then of each kind its size in each
// dimension and its count. The cost is the number of bins. Sizes may be
// negative, as in some published instances: such an item makes room.
package instance
