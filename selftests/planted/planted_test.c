// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Faults on purpose, to see that they are reported: insmod planted_test.ko fault=NAME.
 * The machine is of no use afterwards.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

MODULE_DESCRIPTION("Deliberate faults");
MODULE_LICENSE("Dual BSD/GPL");

static char *fault = "";
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "which one");

struct thing {
	struct list_head list;
	struct timer_list timer;
	u32 row[8];
	u32 after;
};

/* What the compiler must not know, or it would see the fault itself */
static u32 beyond;
module_param(beyond, uint, 0);

static DEFINE_SPINLOCK(outer);
static DEFINE_SPINLOCK(inner);
static DEFINE_SPINLOCK(interrupted);
static u32 __rcu *shared;

static void use_after_free(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(t);
	kfree(t);
	beyond = READ_ONCE(t->after);
}

static void double_free(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	kfree(t);
	OPTIMIZER_HIDE_VAR(t);
	kfree(t);
}

static void out_of_bounds(void)
{
	u8 *p = kzalloc(60, GFP_KERNEL);

	WRITE_ONCE(p[60 + beyond], 1);
	kfree(p);
}

static void array_bounds(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return;
	t->row[8 + beyond] = 1;
	OPTIMIZER_HIDE_VAR(t);
	kfree(t);
}

static void shift(void)
{
	beyond = 1U << (32 + beyond);
}

static void lock_order(void)
{
	spin_lock(&outer);
	spin_lock(&inner);
	spin_unlock(&inner);
	spin_unlock(&outer);

	spin_lock(&inner);
	spin_lock(&outer);
	spin_unlock(&outer);
	spin_unlock(&inner);
}

static void interrupts(struct timer_list *unused)
{
	spin_lock(&interrupted);
	spin_unlock(&interrupted);
}

/* taken in softirq, and by somebody whom that may interrupt */
static void lock_context(void)
{
	static struct timer_list timer;

	timer_setup(&timer, interrupts, 0);
	mod_timer(&timer, jiffies);
	msleep(100);
	spin_lock(&interrupted);
	spin_unlock(&interrupted);
}

static void sleep_in_atomic(void)
{
	void *p;

	spin_lock(&outer);
	p = kmalloc(64, GFP_KERNEL);
	spin_unlock(&outer);
	kfree(p);
}

static void no_rcu(void)
{
	u32 *p = rcu_dereference(shared);

	beyond = !!p;
}

static void nothing(struct timer_list *unused)
{
}

static void active_timer(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return;
	timer_setup(&t->timer, nothing, 0);
	mod_timer(&t->timer, jiffies + 3600 * HZ);
	kfree(t);
}

static void list_twice(void)
{
	static LIST_HEAD(head);
	static struct thing t;

	list_add(&t.list, &head);
	list_add(&t.list, &head);
}

static void refcount(void)
{
	refcount_t ref = REFCOUNT_INIT(1);

	if (refcount_dec_and_test(&ref))
		refcount_dec(&ref);
}

static u32 raced;

static int racer(void *unused)
{
	while (!kthread_should_stop()) {
		raced++;
		cond_resched();
	}
	return 0;
}

static int marked_racer(void *unused)
{
	while (!kthread_should_stop()) {
		WRITE_ONCE(raced, READ_ONCE(raced) + 1);
		cond_resched();
	}
	return 0;
}

/* On two processors, as long as one access in thousands needs to be looked at */
static void two_of(int (*fn)(void *unused))
{
	struct task_struct *t[2];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(t); i++)
		t[i] = kthread_run(fn, NULL, "planted%zu", i);
	msleep(5000);
	for (i = 0; i < ARRAY_SIZE(t); i++) {
		if (!IS_ERR(t[i]))
			kthread_stop(t[i]);
	}
}

static void plain_race(void)
{
	two_of(racer);
}

static void marked_race(void)
{
	two_of(marked_racer);
}

static const struct {
	const char *name;
	void (*fn)(void);
} faults[] = {
	{ "use_after_free", use_after_free },
	{ "double_free", double_free },
	{ "out_of_bounds", out_of_bounds },
	{ "array_bounds", array_bounds },
	{ "shift", shift },
	{ "lock_order", lock_order },
	{ "lock_context", lock_context },
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "no_rcu", no_rcu },
	{ "active_timer", active_timer },
	{ "list_twice", list_twice },
	{ "refcount", refcount },
	{ "plain_race", plain_race },
	{ "marked_race", marked_race },
	{ "none", NULL },
};

static int __init planted_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(faults[i].name, fault))
			continue;
		if (faults[i].fn)
			faults[i].fn();
		return 0;
	}
	return -EINVAL;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
