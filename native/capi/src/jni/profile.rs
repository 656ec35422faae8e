//! The profiler.

use ferromx_runtime::profiler;
use jni::objects::{JObjectArray, JString};
use jni::sys::jboolean;

use super::{attrs, native};

native! {
    fn Java_org_apache_mxnet_LibInfo_profilerConfigure(
        env, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>)
    {
        Ok(profiler::configure(&attrs(env, &keys, &values)?)?)
    }

    fn Java_org_apache_mxnet_LibInfo_profilerRun(_env, active: jboolean) {
        Ok(profiler::run(active)?)
    }

    fn Java_org_apache_mxnet_LibInfo_profilerDump(_env, finished: jboolean) {
        Ok(profiler::dump(finished)?)
    }
}
