// SPDX-License-Identifier: GPL-2.0-or-later
/* sojourn_replace: removes a discipline of the kernel's from the list of disciplines, so that a module can register
 * another one of the same name.
 *
 * The list is not visible to modules. Therefore the discipline is first attached to a device, where this module finds
 * it, and taken from the device afterwards. Queues that exist go on as they are. The module stays loaded, because the
 * removal cannot be undone. */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

static char *device = "lo";
module_param(device, charp, 0);
MODULE_PARM_DESC(device, "a device whose root is the discipline");
static char *kind = "";
module_param(kind, charp, 0);
MODULE_PARM_DESC(kind, "the discipline's name");

static int __init replace_init(void)
{
	const struct Qdisc_ops *ops = NULL;
	struct net_device *dev;

	rtnl_lock();
	dev = __dev_get_by_name(&init_net, device);
	if (dev)
		ops = rtnl_dereference(dev->qdisc)->ops;
	rtnl_unlock();
	if (!ops || strcmp(ops->id, kind))
		return -ENOENT;
	/* A discipline of a module could be removed with its module. */
	if (ops->owner)
		return -EBUSY;
	unregister_qdisc((struct Qdisc_ops *)ops);
	return 0;
}

module_init(replace_init);
MODULE_DESCRIPTION("Removes a discipline of the kernel's, so that a module can replace it");
MODULE_LICENSE("GPL");
