// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module with faults, selected by the parameter `fault`, to show that the
 * stress harness detects each of them. Several are separated by commas. After
 * `bounds` and `freed`, lockdep is off.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *fault = "none";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "none, order, sleep, shift, warn, race, bounds, freed");

static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);
static DEFINE_MUTEX(lazy);
static unsigned long counted;

static void write_beyond(void)
{
	unsigned char *bytes = kmalloc(40, GFP_KERNEL);

	if (!bytes)
		return;
	OPTIMIZER_HIDE_VAR(bytes);
	bytes[40] = 1;
	kfree(bytes);
}

static void read_freed(void)
{
	unsigned char *bytes = kzalloc(64, GFP_KERNEL);

	if (!bytes)
		return;
	kfree(bytes);
	OPTIMIZER_HIDE_VAR(bytes);
	if (bytes[3])
		pr_info("there is something left\n");
}

/*
 * Takes two locks in both orders, one after the other: there is no deadlock
 * here, but lockdep reports the possibility.
 */
static void lock_in_both_orders(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);
	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static void sleep_in_atomic(void)
{
	spin_lock(&first);
	mutex_lock(&lazy);
	mutex_unlock(&lazy);
	spin_unlock(&first);
}

static void shift_too_far(void)
{
	unsigned int by = 37;

	OPTIMIZER_HIDE_VAR(by);
	pr_info("%d\n", 1 << by);
}

static int count(void *unused)
{
	while (!kthread_should_stop()) {
		counted++;
		cond_resched();
	}
	return 0;
}

/* Two threads count in one variable, for a second. */
static void race(void)
{
	struct task_struct *one = kthread_run(count, NULL, "faulty_one");
	struct task_struct *two = kthread_run(count, NULL, "faulty_two");

	msleep(1000);
	if (!IS_ERR(one))
		kthread_stop(one);
	if (!IS_ERR(two))
		kthread_stop(two);
}

static int __init faulty_init(void)
{
	char *rest = fault, *name;

	while ((name = strsep(&rest, ","))) {
		if (!strcmp(name, "bounds"))
			write_beyond();
		else if (!strcmp(name, "freed"))
			read_freed();
		else if (!strcmp(name, "order"))
			lock_in_both_orders();
		else if (!strcmp(name, "sleep"))
			sleep_in_atomic();
		else if (!strcmp(name, "shift"))
			shift_too_far();
		else if (!strcmp(name, "warn"))
			WARN(1, "asked for\n");
		else if (!strcmp(name, "race"))
			race();
	}
	return 0;
}

static void __exit faulty_exit(void)
{
}

module_init(faulty_init);
module_exit(faulty_exit);
MODULE_DESCRIPTION("Faults on request, to prove that they are noticed");
MODULE_LICENSE("GPL");
